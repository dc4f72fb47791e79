from __future__ import annotations

from tests.conftest import Run


def test_a_sound_installation(run: Run) -> None:
    result = run("mbr-doctor")
    assert result.returncode == 0, result.stdout
    for word in (
        "mbr-decode",
        "torch",
        "transformers",
        "cpu",
        "hub models",
        "offline",
        "chrf",
        "all is well",
    ):
        assert word in result.stdout
    assert "yes (HF_HUB_OFFLINE)" in result.stdout
