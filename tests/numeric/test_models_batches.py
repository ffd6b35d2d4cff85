"""Models of torch with batch normalization: read as they are, and measured."""

from dataclasses import replace

import numpy as np
import pytest

from derive import InputError, layers
from numeric import models

torch = pytest.importorskip("torch", reason="needs torch: wickgarten[torch], make test-models")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

RANDOM = np.random.default_rng(0)
BATCH, SIGNALS = RANDOM.standard_normal((3, 6)), RANDOM.standard_normal((2, 2, 2))


def drawn(module, C_W=1.5):
    fan_in = module.weight[0].numel()
    nn.init.normal_(module.weight, std=(C_W / fan_in) ** 0.5)
    nn.init.normal_(module.bias, std=0.5)
    return module


def vectors():
    return nn.Sequential(
        *(drawn(nn.Linear(6, 24)), nn.BatchNorm1d(24, eps=0.1), nn.Tanh()),
        *(
            drawn(nn.Linear(24, 24)),
            nn.BatchNorm1d(24, eps=0.1),
            nn.Tanh(),
            drawn(nn.Linear(24, 24)),
        ),
    )


def signals():
    return nn.Sequential(
        *(drawn(nn.Conv1d(2, 16, 1)), nn.BatchNorm1d(16), nn.ReLU()),
        *(drawn(nn.Conv1d(16, 16, 2, padding="same", padding_mode="circular")), nn.BatchNorm1d(16)),
        *(nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), drawn(nn.Linear(16, 5))),
    )


class Block(nn.Module):
    """x + W₂ σ(BN(W₁ x))."""

    def __init__(self, n):
        super().__init__()
        self.up, self.norm, self.down = drawn(nn.Linear(n, n)), nn.BatchNorm1d(n), nn.Linear(n, n)

    def forward(self, x):
        return x + self.down(torch.relu(self.norm(self.up(x))))


class PreActivation(Block):
    """x + W₂ relu(BN(x)): a skip past the norm, which has K alone."""

    def forward(self, x):
        return x + self.down(torch.relu(self.norm(x)))


def residual():
    return nn.Sequential(drawn(nn.Linear(6, 16)), PreActivation(16), PreActivation(16))


def blocks():
    return nn.Sequential(drawn(nn.Linear(6, 16)), Block(16), Block(16))


@pytest.mark.parametrize(
    ("make", "inputs"), [(vectors, BATCH), (signals, SIGNALS), (blocks, BATCH), (residual, BATCH)]
)
def test_what_is_read_is_the_model_in_training_mode(make, inputs):
    found = models.read(make, inputs, draws=4)
    reading, end = found.reading, found.structure.blocks[-1].node
    made = reading.initialize([3])
    torch.manual_seed(3)
    with torch.no_grad():
        expected = make().double()(torch.tensor(inputs)).numpy()
    np.testing.assert_allclose(
        reading.propagate(made, 0, inputs[None], end)[0].reshape(expected.shape),
        expected,
        atol=1e-6,
    )
    own, X = found.drawn(), found.by_positions(inputs)
    values = reading.values(made)
    np.testing.assert_allclose(
        own.propagate(values, 0, X[None], end), reading.propagate(made, 0, inputs[None], end)
    )
    np.testing.assert_allclose(
        own.tangents(values, X, [end]), reading.tangents(made, inputs, [end]), rtol=1e-9
    )
    assert f"over the {len(inputs)} inputs" in str(found)


def test_batches_of_several_networks_stay_apart():
    found = models.read(vectors, BATCH, draws=4)
    reading, (first, *_, last) = found.reading, (block.node for block in found.structure.blocks)
    made = reading.initialize([1, 2])
    states = np.random.default_rng(1).standard_normal((2, 6, 24))
    both = reading.propagate(made, first, states, last)
    halves = [reading.propagate(made, first, states[:, at : at + 3], last) for at in (0, 3)]
    np.testing.assert_allclose(both, np.concatenate(halves, axis=1))


def test_evaluation_mode_normalizes_nothing():
    found = models.read(lambda: vectors().eval(), draws=4)
    assert "evaluation mode: a factor, nothing is normalized" in str(found)
    assert all(layer.is_dense for layer in [found.network.layer])
    node = found.structure.graph.nodes[found.structure.blocks[0].node]
    assert float(node.scale) == pytest.approx(1.1**-0.5)


def test_the_network_has_the_equations_of_the_layer():
    found = models.read(vectors, BATCH, draws=4)
    assert found.network.layer.stages[0].batch == layers.batchnorm("1/10").stages[0].batch


def trained():
    model = vectors().eval()
    model[1].running_mean += 1
    return model


class PostNorm(Block):
    def forward(self, x):
        return torch.relu(x + self.norm(self.up(x)))


@pytest.mark.parametrize(
    ("make", "inputs", "reason"),
    [
        (vectors, None, "without a batch: inputs= gives it"),
        (vectors, BATCH[0], "without a batch"),
        (trained, BATCH, "running statistics"),
        (lambda: nn.Sequential(drawn(nn.Linear(6, 8)), PostNorm(8), nn.Linear(8, 2)), BATCH, "not"),
    ],
)
def test_refusals(make, inputs, reason):
    with pytest.raises(InputError, match=reason):
        models.read(make, inputs, draws=4)


def test_a_report_takes_the_batch_that_was_read():
    with pytest.raises(InputError, match="the batch that the model was read with"):
        models.report(models.read(vectors, BATCH, draws=4), BATCH[:2])


@pytest.mark.slow
@pytest.mark.parametrize(("make", "inputs"), [(blocks, BATCH), (signals, SIGNALS)])
def test_theory_of_what_was_read_agrees(make, inputs):
    found = models.report(make, inputs, draws=100)
    assert found.agrees
    assert min(each.resolution for each in found.comparisons) < 0.6
    assert {"Theta", "χ∥", "singular values"} <= found.withheld.keys()


@pytest.mark.slow
def test_a_skip_past_the_norm_has_a_report_of_K():
    found = models.report(residual, BATCH, draws=60)
    assert found.agrees
    assert "what is not K or Θ" in found.withheld["V"]
    assert {row.tensor for each in found.comparisons for row in each.rows} == {"K"}


@pytest.mark.slow
def test_a_planted_fault_is_seen():
    """A mean that is not taken off."""
    found = models.read(vectors, BATCH[:2])
    wrong = replace(found.network, layer="batchnorm(eps=1/10, center=False)")
    assert not models.report(replace(found, network=wrong), BATCH[:2], draws=100).agrees
