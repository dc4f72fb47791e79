"""An encoder that reads candidates as translation models do: how likely is each word, given the other side?

A small encoder that is trained from nothing knows no translation. Translation models do, so this encoder has two
inside. One reads the source and expects the words of each candidate; the other reads each candidate and expects the
words of the source, so that what a candidate leaves out shows at the words of the source. What was expected at a word,
the word itself and its log-probability become one vector per token, and a few layers then read source and candidates
together, as any encoder of PEAR does. A source of a batch and each of its candidates are translated once, however many
pairs they are in; only the layers on top see the pair.

    reader = TranslationReader(EncoderConfig.of_folder(folder))
    reader(ids, attention).last_hidden_state                            # [rows, tokens, hidden]

`pear.training.translator` fills it with the weights of CTranslate2 folders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from pear.runtime.int8 import Affine, Int8Linear
from pear.runtime.shapes import EncoderConfig
from pear.runtime.transformer import Dense, EncoderOutput, PreNormLayer, attend, make_embedding, make_norm

SOURCE, SPECIAL = 0, 3  # types of tokens; those between are the candidates'
CANDIDATES = 2  # texts after the source, at most
TOKENS = 192  # tokens whose probabilities over the whole vocabulary are held at once
SUMMARIES = 3  # sum, mean and least log-probability of the words of a text


class TranslationReader(nn.Module):
    """Two translation models, and layers that read their states of source and candidates together.

    Rows are laid out as by `pear.serialize` with two separators between texts: the source, then one or two candidates.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.forward_model = TranslationModel(config, config.encoder_layers, config.decoder_layers)
        self.backward_model = TranslationModel(config, config.backward_encoder_layers, config.backward_decoder_layers)
        # Of a token of the source: its state; by slot, what the backward model expected there given the candidate.
        self.source = nn.Linear(width, width)
        self.source_expected = nn.ModuleList(nn.Linear(width, width) for _ in range(CANDIDATES))
        self.source_likelihood = nn.ModuleList(nn.Linear(2, width) for _ in range(CANDIDATES))
        # Of a token of a candidate: what the forward model expected, the word, its state, and both models' likelihoods.
        self.expected, self.word, self.state = (nn.Linear(width, width) for _ in range(3))
        self.likelihood = nn.Linear(2, width)
        self.summary = nn.Linear(2 * SUMMARIES, width)
        self.types = make_embedding(SPECIAL + 1, width)
        self.layers = nn.ModuleList(PreNormLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = make_norm(config)
        # Answers in the place of the translation models: while training, a memory of what they said before. Not a
        # method of the reader's own: weights that refer to themselves are not released when they are let go of.
        self.memory: Callable[[Texts], Translations] | None = None

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool = False,
        return_dict: bool = True,
        texts: Texts | None = None,
    ) -> EncoderOutput:
        """Token ids and mask [rows, tokens]; without a mask, padding is what has its id.

        `texts` are those of the batch, if they are known: to find them, a GPU would have to finish all work before.
        """
        present = (input_ids != self.config.pad_token_id) if attention_mask is None else attention_mask.bool()
        if texts is None:
            texts = Texts.of(input_ids, present, self.config)
        states = self._dropped(self._tokens(texts)) + self.types(texts.types)  # [rows, tokens, hidden]
        mask = None if texts.whole else present[:, None, None, :]
        read = []
        for layer in self.layers:
            if output_hidden_states:
                read.append(states)
            after = layer(states, mask)
            states = states + self._dropped(after - states) if self.training else after
        states = self.norm(states)
        return EncoderOutput(states, (*read, states) if output_hidden_states else None)

    def _dropped(self, values: Tensor) -> Tensor:
        """While it learns, without a random share: few lists are learnt by heart otherwise."""
        return functional.dropout(values, self.config.hidden_dropout_prob, self.training)

    def translations(self, texts: Texts) -> Translations:
        """What the translation models expect of the distinct texts of a batch."""
        beside = texts.sources[texts.source_of]  # [candidates, tokens]
        everyone = torch.arange(len(beside), device=beside.device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.forward_model.learns):
            forward = self.forward_model(texts.sources, texts.candidates, texts.source_of)
            return Translations(*forward, *self.backward_model(texts.candidates, beside, everyone))

    def _tokens(self, texts: Texts) -> Tensor:
        """What the models say of each token [rows, tokens, hidden]; zeros for tokens of no text."""
        candidates, answers = texts.candidates, (self.memory or self.translations)(texts)
        of_words = candidates != self.config.pad_token_id, texts.sources[texts.source_of] != self.config.pad_token_id
        parts = [summaries(*each) for each in zip((answers.chances, answers.source_chances), of_words, strict=True)]
        own, _ = with_end(candidates, self.config.eos_token_id, self.config.pad_token_id)
        read = (
            self.expected(answers.expected) + self.word(self.forward_model.embedded(own)) + self.state(answers.states)
        )
        read = read + self.likelihood(answers.chances) + self.summary(torch.cat(parts, dim=-1))[:, None]
        zero = read.new_zeros(1, read.shape[-1])
        values = torch.cat([zero, self.source(answers.memory).flatten(0, 1), read.flatten(0, 1)])[texts.places]
        for slot, places in enumerate(texts.source_places):
            evidence = self.source_expected[slot](answers.source_expected)
            evidence = evidence + self.source_likelihood[slot](answers.source_chances)
            values = values + torch.cat([zero, evidence.flatten(0, 1)])[places]
        return values + self._unused(len(texts.source_places)) if torch.is_grad_enabled() else values

    def _unused(self, slots: int) -> Tensor:
        """Zero, of the weights for candidates that rows do not have: processes that learn together wait for each."""
        parts = (*self.source_expected[slots:], *self.source_likelihood[slots:])
        zero = self.types.weight.new_zeros(())
        return zero * sum((weight.sum() for part in parts for weight in part.parameters()), zero)


@dataclass(frozen=True)
class Translations:
    """Of each distinct source its states in the forward model; of each distinct candidate what that model expected at
    its words and how likely they were, its states in the backward model, and the same two of the source's words there.

    States and what is expected [texts, tokens + 1, hidden], likelihoods [texts, tokens + 1, 2].
    """

    memory: Tensor
    expected: Tensor
    chances: Tensor
    states: Tensor
    source_expected: Tensor
    source_chances: Tensor


def summaries(chances: Tensor, words: Tensor) -> Tensor:
    """Sum, mean and least log-probability of texts [texts, 3], each of a size near 1.

    Args:
        chances: [texts, tokens + 1, 2], the first number is the log-probability; the end of a text counts.
        words: which tokens are the text's own [texts, tokens].
    """
    own = functional.pad(words, (1, 0), value=True)  # as many tokens as words, and the end
    values = chances[..., 0].float() * own
    total, count = values.sum(dim=1), own.sum(dim=1)
    least = values.amin(dim=1) if values.shape[1] else total
    return torch.stack([total / 10, total / count, least / 4], dim=-1).to(chances.dtype)


@dataclass(frozen=True)
class Texts:
    """The distinct texts of a batch, and where each token of its rows is among theirs.

    `sources` [distinct, tokens], `candidates` [distinct, tokens] and `source_of` [candidates], the source of each.
    A text's states stand in one more place than it has tokens, that of the separator behind it. `places` [rows, tokens]
    are places in the flattened states of sources, then of candidates, counted from 1; 0 for what belongs to no text.
    `source_places` [slots, rows, tokens] are those of the source's tokens in the flattened states of sources read
    beside each candidate, counted from 1; 0 elsewhere. `types` [rows, tokens]. `whole`: no row has padding.
    """

    sources: Tensor
    candidates: Tensor
    source_of: Tensor
    places: Tensor
    source_places: Tensor
    types: Tensor
    whole: bool

    @classmethod
    def of(cls, ids: Tensor, present: Tensor, config: EncoderConfig) -> Texts:
        padding = config.pad_token_id
        separators = (ids == config.eos_token_id) & present
        before = separators.cumsum(dim=1)
        content = present & ~separators
        content[:, 0] = False  # the start token
        count = (int(before.max()) + 1) // 2
        numbers = torch.arange(count, device=ids.device)
        lengths = ((before[:, None] // 2 == numbers[:, None]) & content[:, None]).sum(dim=-1)  # [rows, texts]
        starts = 1 + (lengths + 2).cumsum(dim=1) - lengths - 2  # [rows, texts]
        column = torch.arange(ids.shape[1] + 1, device=ids.device)
        own = functional.pad(ids, (0, 1), value=padding)

        def taken(text: int, width: int) -> Tensor:
            """The tokens of one text of each row, and padding [rows, width]."""
            places = (starts[:, text, None] + column[:width]).clamp_max(ids.shape[1])
            inside = column[:width] < lengths[:, text, None]
            return own.gather(1, places).masked_fill(~inside, padding)

        width = max(int(lengths[:, 0].max()), 1)  # rows without any column cannot be compared
        sources, source_number = distinct_rows(taken(0, width))
        longest = int(lengths[:, 1:].max())
        keyed = [torch.cat([source_number[:, None], taken(k, longest)], dim=1) for k in range(1, count)]
        distinct, candidate_number = distinct_rows(torch.cat(keyed))
        candidates = distinct[:, 1:]

        offset, place = column[:-1] - starts[..., None], torch.zeros_like(ids)
        types = torch.full_like(ids, SPECIAL)
        slots = []
        for k in range(count):
            inside = (offset[:, k] >= 0) & (offset[:, k] <= lengths[:, k, None])  # with the separator behind it
            if k == 0:
                base = 1 + source_number[:, None] * (sources.shape[1] + 1)
            else:
                number = candidate_number[(k - 1) * len(ids) : k * len(ids), None]
                base = 1 + len(sources) * (sources.shape[1] + 1) + number * (candidates.shape[1] + 1)
                of_source = (offset[:, 0] >= 0) & (offset[:, 0] <= lengths[:, 0, None])
                slots.append(torch.where(of_source, 1 + number * (sources.shape[1] + 1) + offset[:, 0], 0))
            place = torch.where(inside, base + offset[:, k], place)
            types = torch.where(inside & content, SOURCE + k, types)
        return cls(sources, candidates, distinct[:, 0], place, torch.stack(slots), types, bool(present.all()))

    def moved(self, move: Callable[[Tensor], Tensor]) -> Texts:
        """The same on another device, to which `move` brings a tensor."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: move(value) for name, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **tensors)


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows, and where each row is among them."""
    # Apple's GPUs find no distinct rows before torch 2.10.
    distinct, numbers = torch.unique(rows.cpu() if rows.device.type == "mps" else rows, dim=0, return_inverse=True)
    return distinct.to(rows.device), numbers.to(rows.device)


class TranslationModel(nn.Module):
    """A pre-norm Transformer with one embedding matrix for input and output, as `candidates.training` makes it.

    While it does not `learn`, no gradients are computed for it.
    """

    def __init__(self, config: EncoderConfig, encoder_layers: int, decoder_layers: int) -> None:
        super().__init__()
        self.config = config
        self.embeddings = make_embedding(config.vocab_size, config.hidden_size)
        self.positions = make_embedding(config.max_position_embeddings, config.hidden_size)
        self.output_bias = nn.Parameter(torch.empty(config.vocab_size))
        self.encoder = nn.ModuleList(PreNormLayer(config) for _ in range(encoder_layers))
        self.encoder_norm = make_norm(config)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(decoder_layers))
        self.decoder_norm = make_norm(config)
        # In int8: what gives the words' logits. In floating point the embeddings do, which stay for look-ups.
        self.vocabulary: Int8Linear | None = None

    @property
    def learns(self) -> bool:
        return bool(self.output_bias.requires_grad)

    def forward(self, inputs: Tensor, outputs: Tensor, input_of: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """How likely each output is, given its input.

        Args:
            inputs, outputs: tokens of texts [texts, tokens], without start and end, then padding.
            input_of: the place of each output's input [outputs].

        Returns:
            States of the inputs [inputs, tokens + 1, hidden]; what is expected in each place of the outputs, the one
            after their end included [outputs, tokens + 1, hidden]; and [outputs, tokens + 1, 2]: the log-probability of
            the word that comes there, and that of the likeliest word. In places beyond a text's end they mean nothing,
            but the log-probability is that of the end.
        """
        start, end, padding = self.config.bos_token_id, self.config.eos_token_id, self.config.pad_token_id
        ended, whole = with_end(inputs, end, padding)
        memory = self._placed(ended)
        for layer in self.encoder:
            memory = layer(memory, whole[:, None, None, :])
        memory = self.encoder_norm(memory)
        states = self._placed(functional.pad(outputs, (1, 0), value=start))
        coming = functional.pad(outputs, (0, 1), value=end)
        tokens = states.shape[1]
        earlier = torch.ones(tokens, tokens, dtype=torch.bool, device=states.device).tril()
        for layer in self.decoder:
            states = layer(states, earlier, memory, input_of, whole[:, None, None, :])
        states = self.decoder_norm(states)
        return memory, states, self._chances(states, coming.masked_fill(coming == padding, end))

    def embedded(self, ids: Tensor) -> Tensor:
        """Vectors of tokens [..., hidden], of the size that states have."""
        vectors: Tensor = self.embeddings(ids)
        return vectors * vectors.shape[-1] ** 0.5

    def quantise_own(self) -> None:
        self.vocabulary = Int8Linear(Affine(self.embeddings.weight, self.output_bias))

    def _logits(self, states: Tensor) -> Tensor:
        """States [tokens, hidden] -> [tokens, vocabulary]."""
        if self.vocabulary is not None:
            return self.vocabulary(states).float()
        return functional.linear(states, self.embeddings.weight, self.output_bias).float()

    def _placed(self, ids: Tensor) -> Tensor:
        return self.embedded(ids) + self.positions.weight[: ids.shape[1]]

    def _chances(self, states: Tensor, coming: Tensor) -> Tensor:
        parts = []
        for some, words in zip(states.flatten(0, 1).split(TOKENS), coming.flatten().split(TOKENS), strict=True):
            logits = self._logits(some)
            total = logits.logsumexp(dim=-1, keepdim=True)
            parts.append(torch.cat([logits.gather(1, words[:, None]), logits.amax(dim=-1, keepdim=True)], 1) - total)
        joined = torch.cat(parts) if parts else states.new_zeros(0, 2)
        return joined.to(states.dtype).view(*states.shape[:2], 2)


def with_end(texts: Tensor, end: int, padding: int) -> tuple[Tensor, Tensor]:
    """Texts [texts, tokens] with the end token behind each [texts, tokens + 1], and which tokens are theirs."""
    lengths = (texts != padding).sum(dim=1, keepdim=True)
    ended = functional.pad(texts, (0, 1), value=padding).scatter(1, lengths, end)
    return ended, torch.arange(ended.shape[1], device=texts.device) <= lengths


class DecoderLayer(PreNormLayer):
    """The same blocks, with attention to the input between them."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.heads = int(config.num_attention_heads)
        self.source_norm = make_norm(config)
        # Not called query, key and value: those read one input, and are computed together in int8.
        self.source_query, self.source_key, self.source_value = (nn.Linear(width, width) for _ in range(3))
        self.source_output = Dense(config, width)

    def forward(  # type: ignore[override]
        self, states: Tensor, mask: Tensor, memory: Tensor, input_of: Tensor, whole: Tensor
    ) -> Tensor:
        """States [outputs, tokens, hidden]; `memory` [inputs, tokens, hidden], `input_of` [outputs]."""
        states = self.attention(states, mask)
        query = self._parted(self.source_query(self.source_norm(states)))
        key, value = (self._parted(part(memory))[input_of] for part in (self.source_key, self.source_value))
        mixed = attend(query, key, value, whole[input_of])
        states = states + self.source_output.dense(mixed.transpose(1, 2).flatten(2))
        output: Tensor = self.output.dense(self.intermediate(self.LayerNorm(states))) + states
        return output

    def _parted(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [rows, heads, tokens, hidden / heads]
