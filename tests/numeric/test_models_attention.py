"""Attention of torch: each spelling is read as the same network, and K is that of fresh draws."""

from __future__ import annotations

import math
import re
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from derive import InputError, Network, layers
from numeric import flow, models

torch = pytest.importorskip("torch", reason="needs torch: wickgarten[torch], make test-models")
nn, functional = torch.nn, torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "gpt.py"
TOKENS, N, HEADS = 3, 32, 8
SIZE = N // HEADS
X = np.random.default_rng(0).standard_normal((1, TOKENS, 5))
BOUND = 5.0


def attend(how, q, k, v, mask):
    """Causal attention of (m, H, T, d)."""
    if how == "function":
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    if how == "buffer":
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask == 1)
    tokens = q.size(-2)
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    scores = scores.masked_fill(mask[None, None, :tokens, :tokens] == 0, float("-inf"))
    return functional.softmax(scores, dim=-1) @ v


class Attention(nn.Module):
    """Causal self attention in one of several spellings."""

    def __init__(self, how, n=N, count=HEADS, tokens=TOKENS):
        super().__init__()
        self.how, self.count, self.n = how, count, n
        self.packed, self.last = nn.Linear(n, 3 * n, bias=False), nn.Linear(n, n, bias=False)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(tokens, tokens)))

    def forward(self, y):
        B, T, C = y.shape
        if self.how == "unbind":
            packed = self.packed(y).reshape(B, T, 3, self.count, C // self.count)
            q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
        else:
            q, k, v = self.packed(y).split(self.n, dim=2)
            q, k, v = (e.view(B, T, self.count, -1).transpose(1, 2) for e in (q, k, v))
        found = attend(self.how, q, k, v, self.mask).transpose(1, 2)
        return self.last(self.drop(found.contiguous().view(B, T, C)))


class Net(nn.Module):
    """x + attention(norm(x)), then a matrix of the last token."""

    def __init__(self, how, n=N, count=HEADS, gain=1.0):
        super().__init__()
        self.how = how
        self.first, self.norm = nn.Linear(5, n, bias=False), nn.RMSNorm(n, eps=1e-5)
        if how == "module":
            self.attention = nn.MultiheadAttention(n, count, bias=False, batch_first=True)
        else:
            self.attention = Attention(how, n, count)
        self.register_buffer("above", torch.ones(TOKENS, TOKENS).triu(1).bool())
        self.head = nn.Linear(n, 2, bias=False)
        for name, each in self.named_parameters():
            if each.ndim > 1:
                own = gain if "packed" in name or "in_proj" in name else 1.0
                nn.init.normal_(each, std=own / math.sqrt(each.shape[1]))

    def forward(self, x):
        z = self.first(x)
        y = self.norm(z)
        if self.how == "module":
            z = z + self.attention(y, y, y, attn_mask=self.above, need_weights=False)[0]
        else:
            z = z + self.attention(y)
        return self.head(z[:, -1])


def _without_head(net):
    return Network("linear", layer=net.layer_at(2, 3))


def _kernel(net, depth=2):
    return flow(net, X[0], depth, "K")["K"].to_numpy()


def test_every_spelling_is_the_same_network_and_the_model_itself():
    found = {}
    for how in ("function", "buffer", "formula", "unbind", "module"):
        read = models.read(lambda how=how: Net(how), X, draws=30)
        found[how] = read.network
        made = read.reading.initialize([1])
        shown = read.reading.propagate(made, 0, X[None], read.reading.graph.output)
        model, values = Net(how).double().eval(), {path: e[0] for path, e in made.items()}
        with torch.no_grad():
            out = torch.func.functional_call(model, values, torch.tensor(X))
        assert np.allclose(shown[0, 0], out[0], rtol=1e-12, atol=1e-12)
    assert len(set(found.values())) == 1
    shipped = layers.attention(
        f"n/{SIZE}", TOKENS, "1/sqrt(d)", mask="causal", norm="rms", eps="1/100000"
    )
    own = _kernel(_without_head(found["module"]))
    assert np.allclose(own, _kernel(Network("linear", layer=shipped)), rtol=1e-12)


def _wrong(**changed):
    """The kernel of layer 2 with one thing read wrong."""
    given = {"mask": "causal", "C": [4, 4, 4, 1]} | changed
    layer = layers.attention("n/4", TOKENS, "1/sqrt(d)", norm="rms", eps="1/100000", **given)
    return _kernel(Network("linear", layer=layer))[-1]


def test_the_kernel_is_that_of_fresh_draws_and_a_wrong_reading_is_seen():
    read = models.read(lambda: Net("formula", 128, 32, gain=2.0), X, draws=8)
    node, count = read.structure.blocks[1].node, 300
    made = read.reading.initialize(range(count))
    z = read.reading.propagate(made, 0, X[None], node).reshape(count, TOKENS, 128)
    each = np.einsum("dti,dsi->dts", z, z) / 128
    mean, error = each.mean(axis=0), each.std(axis=0) / np.sqrt(count)

    def score(K):
        return np.abs((mean - K) / error).max()

    assert score(_kernel(_without_head(read.network))[-1]) < BOUND
    assert score(_wrong(mask=None)) > 2 * BOUND
    assert score(_wrong(C=[4 * 4, 4, 4, 1])) > 2 * BOUND  # without 1/√d
    assert score(_wrong(C=[4, 1, 4, 1])) > BOUND


class Separate(nn.Module):
    """Queries, keys and values each with a matrix, or by torch's module, as Xavier draws them."""

    def __init__(self, packed=False, scale=None):
        super().__init__()
        self.packed, self.scale = packed, scale
        self.first, self.head = nn.Linear(5, N), nn.Linear(N, 2)
        if packed:
            self.attention = nn.MultiheadAttention(N, HEADS, batch_first=True)
        else:
            self.q, self.k, self.v, self.o = (nn.Linear(N, N, bias=False) for _ in range(4))
            for each in (self.q, self.k, self.v):
                nn.init.xavier_uniform_(each.weight)

    def forward(self, x):
        z = self.first(x)
        y = functional.rms_norm(z, (N,), eps=1e-5)
        if self.packed:
            return self.head((z + self.attention(y, y, y)[0]).mean(1))
        q, k, v = (
            e(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for e in (self.q, self.k, self.v)
        )
        found = functional.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.head((z + self.o(found.transpose(1, 2).flatten(2))).mean(1))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Separate, "scores over √d have the variance K²$"),
        (lambda: Separate(scale=1 / SIZE), "scores over d have the variance K²/d$"),
        (lambda: Separate(scale=1), f"scores over √d have the variance {SIZE} K²$"),
        (lambda: Separate(packed=True), "variance 0.25 K², and 4 times that with a matrix each"),
        (Separate(packed=True), "variance 0.25 K², and 4 times that with a matrix each"),
    ],
)
def test_packed_and_separate_matrices_are_told_apart(make, told):
    remarks = "\n".join(models.read(make, X).remarks)
    assert re.search(f"layer 2: {HEADS} heads of {SIZE} neurons; .*{told}", remarks, re.MULTILINE)


class Shared(nn.Module):
    """Heads that share keys and values, in one of several spellings."""

    def __init__(self, how, keys=HEADS // 2, scale=None):
        super().__init__()
        self.how, self.keys, self.scale = how, keys, scale
        self.first, self.norm = nn.Linear(5, N, bias=False), nn.RMSNorm(N, eps=1e-5)
        sizes = {"q": N, "k": keys * SIZE, "v": keys * SIZE, "o": N}
        self.matrices = nn.ModuleDict({k: nn.Linear(N, n, bias=False) for k, n in sizes.items()})
        self.head = nn.Linear(N, 2, bias=False)
        for name, each in self.named_parameters():
            if each.ndim > 1:
                own = 2.0 if ".q." in name or ".k." in name else 1.0
                nn.init.normal_(each, std=math.sqrt(own / each.shape[1]))

    def several(self, u):
        share = HEADS // self.keys
        if self.how == "repeat_interleave":
            return u.repeat_interleave(share, dim=1)
        if self.how == "function":
            return torch.repeat_interleave(u, repeats=share, dim=1)
        if self.how == "expand":
            B, G, T, d = u.shape
            return u[:, :, None, :, :].expand(B, G, share, T, d).reshape(B, G * share, T, d)
        if self.how == "unsqueeze":
            B, G, T, d = u.shape
            return u.unsqueeze(-3).expand(-1, -1, share, -1, -1).reshape(B, HEADS, T, d)
        return u.repeat(1, share, 1, 1) if self.how == "repeat" else u

    def forward(self, x):
        z = self.first(x)
        y = self.norm(z)
        B, T, C = y.shape
        q, k, v = (
            self.matrices[name](y).view(B, T, count, SIZE).transpose(1, 2)
            for name, count in (("q", HEADS), ("k", self.keys), ("v", self.keys))
        )
        k, v = self.several(k), self.several(v)
        if self.how == "formula":
            h = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(SIZE), dim=-1) @ v
        else:
            how = {"enable_gqa": True} if self.how == "flag" else {}
            h = functional.scaled_dot_product_attention(q, k, v, scale=self.scale, **how)
        h = self.matrices["o"](h.transpose(1, 2).reshape(B, T, C))
        return self.head((z + h)[:, -1])


def _compared(found, keys, *names, count=f"n/{SIZE}", over="1/sqrt(d)"):
    """Tensors by the equations that were read, and by the shipped ones."""
    shipped = layers.attention(
        count, TOKENS, over, norm="rms", eps="1/100000", C=[2, 2, 1, 1], keys=keys
    )
    nets = _without_head(found.network), Network("linear", layer=shipped)
    trained = (replace(each, lambda_W=[5, N], lambda_b=0) for each in nets)
    return [flow(each, X[0], 2, names, width=N) for each in trained]


@pytest.mark.parametrize(
    "how", ["repeat_interleave", "function", "expand", "unsqueeze", "flag", "formula"]
)
def test_heads_that_share_keys(how):
    """The equations are those of the shipped layer, and one key for all heads is one more case."""
    count = 1 if how == "formula" else HEADS // 2
    found = models.read(lambda: Shared(how, count), X, draws=60 if count > 1 else 600)
    told = f"heads of {SIZE} neurons, {count} of keys and values;"
    assert any(told in each for each in found.remarks)
    keys = f"n/{SIZE * HEADS // count}"
    own, shipped = _compared(found, keys, "K", "V")
    assert all(np.allclose(own[name], shipped[name], rtol=1e-9) for name in ("K", "V"))
    other = _compared(found, None, "V")[1]
    assert not np.allclose(own["V"], other["V"], rtol=1e-2)


def test_the_tangent_kernel_where_heads_share_keys():
    """Each matrix is trained at the rate of its own entries, as the shipped layer's."""
    found = models.read(lambda: Shared("flag", scale=1 / SIZE), X, draws=60)
    how = {"count": HEADS, "over": "1/d"}
    own, shipped = _compared(found, HEADS // 2, "K", "Theta", **how)
    for name in ("K", "Theta"):
        assert np.allclose(own[name], shipped[name], rtol=1e-9)


def encoder(norm_first, copies=1):
    """torch's own layers."""
    layer = nn.TransformerEncoderLayer(N, HEADS, N, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, copies, enable_nested_tensor=False)


class Encoded(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.first, self.body, self.head = nn.Linear(5, N), body, nn.Linear(N, 2)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(TOKENS)
        return self.head(self.body(self.first(x), mask=mask, is_causal=True)[:, -1])


def test_an_encoder_layer_is_attention_and_an_mlp():
    read = models.read(lambda: Encoded(encoder(norm_first=True)), X, draws=8)
    assert [what for what, _, _ in read.rows()] == [
        "1: matrix",
        "2: layer norm, attention, skip",
        "3: layer norm, relu, skip",
        "4: matrix",
    ]
    model = Encoded(encoder(norm_first=True)).double().eval()
    made = read.reading.initialize([1])
    shown = read.reading.propagate(made, 0, X[None], read.reading.graph.output)
    with torch.no_grad():
        values = {path: each[0] for path, each in made.items()}
        out = torch.func.functional_call(model, values, torch.tensor(X))
    assert np.allclose(shown[0, 0], out[0], rtol=1e-12, atol=1e-12)


class Changed(nn.Module):
    """Attention with one thing that no theory here has."""

    def __init__(self, how):
        super().__init__()
        self.how, width = how, 2 * N if how == "wide" else N
        self.first = nn.Linear(5, N) if how != "no matrix" else nn.RMSNorm(5)
        fan_in = N if how != "no matrix" else 5
        self.q, self.k, self.v = (nn.Linear(fan_in, width) for _ in range(3))
        self.last, self.each = nn.Linear(width, 2), nn.RMSNorm(SIZE)

    def forward(self, x):
        y = self.first(x)
        if self.how == "no matrix":
            return self.last(self.q(y).chunk(2, -1)[0])
        heads = (HEADS, -1)
        q, k, v = (e(y).unflatten(-1, heads).transpose(1, 2) for e in (self.q, self.k, self.v))
        if self.how == "QK norm":
            q, k = self.each(q), self.each(k)
        if self.how == "functional QK norm":
            q, k = (functional.layer_norm(e, (SIZE,)) for e in (q, k))
        A = q @ k.transpose(-2, -1) / 2.0
        if self.how == "no softmax":
            return self.last((A @ v).transpose(1, 2).flatten(2).mean(1))
        A = torch.softmax(A, dim=-2 if self.how == "other axis" else -1)
        if self.how == "dropout":
            A = functional.dropout(A, 0.1)
        if self.how == "half":
            A = A * 0.5
        return self.last((A @ v).transpose(1, 2).flatten(2).mean(1))


class Tied(nn.Module):
    """A head of the embeddings' own matrix."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(5, N, bias=False), nn.Linear(N, 5, bias=False)
        self.inner = nn.Linear(N, N)
        self.head.weight = nn.Parameter(self.embed.weight.detach().T.clone())

    def forward(self, x):
        return self.head(torch.relu(self.inner(torch.relu(self.embed(x)))))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Changed("no softmax"), "attention without a softmax"),
        (lambda: Changed("other axis"), "not over the tokens that are read"),
        (lambda: Changed("dropout"), "dropout that is on in evaluation"),
        (lambda: Changed("half"), "weights of attention times a number"),
        (lambda: Changed("wide"), "the width of layer 1, for scores over √d"),
        (lambda: Changed("no matrix"), "before the inputs meet a matrix"),
        (lambda: Shared("repeat"), "one behind another, as by repeat_interleave"),
        (lambda: Encoded(encoder(norm_first=False)), "post-norm"),
        (lambda: Encoded(encoder(True, copies=2)), "in_proj_weight, correlated.*; these are equal"),
        (
            lambda: Changed("QK norm"),
            r"too few neurons for a limit.* \(test_models_attention.py:\d",
        ),
        (lambda: Changed("functional QK norm"), "too few neurons for a limit"),
        (Tied, "head.weight, correlated.* tied .*: untie it, or return what the head takes"),
        (lambda: Separate(packed=True), "whose number inputs= tells"),
    ],
)
def test_what_is_refused(make, told):
    inputs = None if "inputs=" in told else X
    with pytest.raises(InputError, match=told):
        models.read(make, inputs, draws=8)


@pytest.mark.parametrize(
    "make",
    [
        Separate,
        lambda: Separate(scale=1 / SIZE),
        lambda: Shared("expand"),
        lambda: Shared("flag", scale=1 / SIZE),
    ],
)
def test_the_network_as_it_was_read_is_the_model(make):
    """With the model's own matrices: values, and the tangent kernel by torch's gradients."""
    inputs = np.random.default_rng(1).standard_normal((2, TOKENS, 5))
    read = models.read(make, inputs, draws=8)
    drawn, nodes = read.drawn(), [b.node for b in read.structure.blocks]
    made, X = read.reading.initialize(range(2)), read.by_positions(inputs)
    own = {path: np.asarray(each, float) for path, each in read.reading.values(made).items()}
    for node in nodes:
        values = read.reading.propagate(made, 0, inputs[None], node)
        assert np.allclose(drawn.propagate(own, 0, X[None], node), values, rtol=1e-10, atol=1e-12)
    kernel = read.reading.tangents(made, inputs, nodes[-1:])
    assert np.allclose(drawn.tangents(own, X, nodes[-1:]), kernel, rtol=1e-12)


class EachToken(Net):
    """Outputs at every token, as of a language model."""

    def forward(self, x):
        z = self.first(x)
        return {"logits": self.head(z + self.attention(self.norm(z))), "hidden": z}


class LastToken(EachToken):
    def forward(self, x):
        return super().forward(x)["logits"][:, -1]


@pytest.mark.slow
def test_outputs_at_tokens_are_those_of_the_last():
    """By the output's name, and of a report without it."""
    own = models.read(lambda: LastToken("function"), X, draws=30)
    found = models.read(lambda: EachToken("function"), X, draws=30, output="logits[:, -1]")
    assert (found.network, found.outputs) == (own.network, ())
    judged = models.report(lambda: EachToken("function"), X, draws=4, output="logits")
    assert judged.description.heading.startswith("EachToken of torch, output logits[:, -1]: 3 lay")
    whole = models.read(lambda: EachToken("function"), X, draws=30, output="logits")
    assert whole.outputs == (TOKENS,)
    with pytest.raises(InputError, match=r"model\(x\)\[:, -1\]"):
        models.report(whole, X)


@pytest.mark.slow
def test_a_report_of_the_example():
    """K of every layer by theory is that of fresh draws; the rest is withheld."""
    found = models.report(runpy.run_path(str(EXAMPLE))["net"], seed=1)
    assert found.agrees
    assert max(row.share for each in found.comparisons for row in each.rows) < 0.1
    assert {"Theta", "χ⊥"} <= set(found.withheld)
    tokens = found.theory.tokens
    assert np.all(np.diff(tokens[:-1]) > 0)
    (attention,) = (e for e in found.findings if "attention" in e.question)
    assert attention.values["beta2"] == pytest.approx({2: 1.0, 4: 1.0}, rel=1e-3)
    (change,) = (e for e in found.findings if "changed" in e.question)
    assert (change.values["blocks"], change.values["blocks_now"]) == (7, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "advised"), [(2.0, 0.5), (1.0, None), (0.2, 5.0)])
def test_the_gain_of_queries_and_keys_is_advised(gain, advised):
    """β² = gain⁴ behind a norm; three tokens are told apart to 2 log 3."""
    judged = models.report(lambda: Net("function", gain=gain), X, draws=30)
    (found,) = (each for each in judged.findings if "changed" in each.question)
    gains = found.values["qk_gains"]
    assert gains == ({} if advised is None else {2: pytest.approx(advised, rel=0.02)})
    assert ("QK gain" in found.answer) == bool(gains)


class Stack(nn.Module):
    """Two blocks of attention alone, with a skip or without."""

    def __init__(self, gain, skip):
        super().__init__()
        self.skip, self.first, self.head = skip, nn.Linear(5, N, bias=False), nn.Linear(N, 2)
        self.norms = nn.ModuleList(nn.RMSNorm(N, eps=1e-5) for _ in range(2))
        self.blocks = nn.ModuleList(Attention("function") for _ in range(2))
        for name, each in self.named_parameters():
            if each.ndim > 1:
                nn.init.normal_(each, std=(gain if "packed" in name else 1) / each.shape[1] ** 0.5)

    def forward(self, x):
        z = self.first(x)
        for norm, block in zip(self.norms, self.blocks, strict=True):
            z = self.skip * z + block(norm(z))
        return self.head(z[:, -1])


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "skip"), [(1, 1), (4, 0)])
def test_how_deep_it_may_be(gain, skip):
    """The blocks to where tokens are alike or V/(nK²) is 0.1, by a network that is not read."""
    found = models.report(lambda: Stack(gain, skip), X, draws=4)
    (told,) = (e for e in found.findings if "changed" in e.question)
    layer = layers.attention(
        f"n/{SIZE}", TOKENS, "1/sqrt(d)", mask="causal", norm="rms", eps="1/100000", skip=skip,
        C=[gain**2] * 3 + [1],
    )  # fmt: skip
    table = flow(Network("linear", layer=layer), X[0], 24, ["K", "V"])
    K, V = table["K"].to_numpy(), table["V"].to_numpy()
    own = np.einsum("ltt->lt", K)
    shares = (K / np.sqrt(own[:, :, None] * own[:, None])).mean(axis=(1, 2))
    alike = (shares * TOKENS - 1) / (TOKENS - 1) >= 0.8
    wide = (np.einsum("ltttt->lt", V) / (N * own**2)).mean(axis=1) >= 0.1
    assert (alike | wide).any()
    most = int(np.argmax(alike | wide)) - 1
    assert told.values["blocks"] == most
    assert told.values["blocks_now"] == 2
    assert ("fewer blocks" in told.answer) == (most < 2)
    assert any("Depth: " in line for line in told.more)
