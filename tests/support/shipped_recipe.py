"""The default recipe of the bundled translator, as its weights stand in files and signatures."""

from __future__ import annotations

from mbr.recipe import read_recipe

LOGPROB = f"{next(term.weight for term in read_recipe('en-de').terms if term.name == 'logprob'):g}"
