"""Random networks against their ensembles, and faults that are planted to be found."""

import json
import shlex
from dataclasses import replace

import numpy as np
import planting
import pytest
import sympy
from faults import KINDS, OfLayers, OfNetwork, OfTerm, beside
from faults import drawn as drawn_faults
from planting import paired
from planting import plant as plant_faults

from derivations import cli, verify
from derivations.commands import options
from derivations.commands.verify import command_line
from derive import (
    Gaussian,
    Network,
    Orthogonal,
    Truncated,
    activations,
    recursion,
)
from derive.errors import InputError
from numeric import Comparison, examples, flow
from numeric.examples import Example, OfLayer, drawn, simpler
from numeric.tables import WEAK, Row

QUICK = {"widths": (12, 24, 48), "draws": 1000}
DRAWN = range(1, 61)
"""The numbers of the examples of seed 1 that are looked at."""


def plant(monkeypatch, tensor, factor, where=lambda net, inputs, depth: True):
    """A fault in the theory: a tensor at the last layer is wrong by a factor in some networks."""
    right = verify.flow

    def wrong(net, inputs, depth, tensors, *, width=None):
        table = right(net, inputs, depth, tensors, width=width)
        if tensor in table and where(net, inputs, depth):
            table[tensor][-1] *= factor
        return table

    monkeypatch.setattr(verify, "flow", wrong)


def test_examples_are_many_and_depend_on_their_number_alone():
    networks = [drawn(k, 1) for k in DRAWN]
    assert str(drawn(7, 1)) == str(networks[6])
    assert len({str(example) for example in networks}) == len(networks)
    assert {example.net.weights.name for example in networks} == set(options.WEIGHTS)
    assert {name for example in networks for name in example.tensors} == {
        "K", "G1", "V", "Theta", "Theta1", *"DFABPQRSTU",
    }  # fmt: skip
    assert {example.inputs.ndim for example in networks} == {1, 2}
    assert any(example.net.activation.name.startswith("expr:") for example in networks)
    assert any(not example.net.activation.is_smooth for example in networks)


@pytest.mark.parametrize("number", DRAWN[::3])
def test_commands_repeat_examples(number):
    """What the command line reads is the network, the inputs and the rest of the example."""
    example = drawn(number, 1)
    words = shlex.split(command_line(example, [24, 48], 100))
    assert words[0] == "wickgarten"
    read = cli._parser().parse_args(words[1:])
    net, given = options.network(read), example.net
    assert (net.activation, net.weights) == (given.activation, given.weights)
    assert net.weights_at(1) == given.weights_at(1)
    for layer in (1, 2, 3):
        assert net.C_b_at(layer) == given.C_b_at(layer)
        assert net.lambda_b_at(layer) == given.lambda_b_at(layer)
        assert net.lambda_W_at(layer) == given.lambda_W_at(layer)
    np.testing.assert_array_equal(options.inputs(read.input), example.inputs)
    assert tuple(read.tensors) == example.tensors
    assert (read.depth, read.seed) == (example.depth, example.seed)
    assert (read.width, read.draws, read.compare) == ([24, 48], 100, True)


def test_shrinking_comes_to_an_end_at_the_plainest_network():
    for number in DRAWN[:20]:
        smaller = drawn(number, 1)
        for _ in range(40):
            smaller = next(simpler(smaller), None) or smaller
        assert next(simpler(smaller), None) is None
        assert (smaller.depth, smaller.inputs.size, len(smaller.tensors)) == (1, 1, 1)
        assert smaller.net == Network(activations.linear, Gaussian(1))


def test_theory_agrees_in_random_networks():
    """Four of the examples of seed 1, false alarms 5.7e-7 in all."""
    found = verify.verify(4, seed=1)
    assert found.agrees, str(found)
    assert found.smallest == ()
    assert "4 networks" in found.summary


def test_what_vanishes_is_compared_to_rounding():
    """F and B of an orthogonal linear network are 0 without fluctuations, but for rounding."""
    net = Network(activations.linear, Orthogonal(1.5), lambda_W=0.5)
    example = Example(net, np.array([0.3, 0.8, 0.5, 0.1, 0.6]), 2, ("Theta", "D", "F", "A", "B"))
    assert verify.check(example, draws=1000).agrees


@pytest.mark.slow
def test_theory_agrees_in_many_random_networks():
    """3 networks, false alarms 5.7e-7 in all."""
    found = verify.verify(3, seed=2)
    assert found.agrees, str(found)


def test_a_wrong_theory_fails_and_is_made_small(monkeypatch):
    """V too large by a third: what is left is the first layer where a plain network has one."""
    plant(monkeypatch, "V", 4 / 3)
    net = Network(activations.tanh, Truncated(1, ratio=4), Gaussian(1), C_b=0.1, lambda_W=0.5)
    example = Example(net, np.array([0.3, -0.8]), 3, ("G1", "V"), 3)
    found = verify.verify(example)
    assert not found.agrees
    (check,) = found.smallest
    assert not check.agrees
    smallest = check.example
    assert smallest.net == Network(activations.linear, Gaussian(1))
    assert (smallest.tensors, smallest.depth, smallest.inputs.size) == (("V",), 2, 1)
    assert "the smallest network that shows it" in str(found)


def test_what_a_fault_needs_is_kept(monkeypatch):
    """K wrong with biases and orthogonal weights, at depth 3 or more."""

    def where(net, inputs, depth):
        return depth >= 3 and net.C_b_at(1) != 0 and isinstance(net.weights, Orthogonal)

    plant(monkeypatch, "K", 1.5, where)
    net = Network(activations.sin, Orthogonal(1.5), C_b=0.1, lambda_b=OfLayer("1/l"))
    example = Example(net, [[0.3, -0.8]], 4, ("K",))  # a list, made smaller as an array is
    (check,) = verify.verify(example, **QUICK).smallest
    assert check.example.net == Network(activations.linear, Orthogonal(1), C_b=0.1)
    assert (check.example.depth, check.example.inputs.shape) == (3, (1,))


def test_inputs_of_an_example_are_checked_where_it_is_made():
    assert Example(Network(activations.linear), [1, 2], 2, ("K",)).inputs.tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match=r"^inputs: got"):
        Example(Network(activations.linear), [[1, 2], [3]], 2, ("K",))


def test_the_command_tells_a_fault_and_how_to_repeat_it(monkeypatch, capsys):
    plant(monkeypatch, "V", 3)
    monkeypatch.setattr(examples, "ALL_DERIVATIVES", (("K", "V"),))
    monkeypatch.setattr(examples, "FIRST_DERIVATIVES", (("K", "V"),))
    arguments = ["verify", "--seed", "1", "--examples", "2", "--only", "2"]
    arguments += ["--draws", "4000"]
    assert cli.main(arguments) == 1
    out = capsys.readouterr().out
    assert out.startswith("  2  FAILS")
    repeat = next(line for line in out.splitlines() if line.startswith("    wickgarten simulate"))
    assert cli.main(shlex.split(repeat)[1:]) == 0  # where theory is right
    assert "weak: 2 comparisons" in capsys.readouterr().out  # at so few draws


def test_an_example_that_would_have_agreed_with_too_much_is_weak(capsys):
    net = Network(activations.relu)
    example = Example(net, np.array([0.3, -0.8]), 3, ("K", "V"))
    found = verify.verify([example, replace(example, tensors=("K",))], draws=4000)
    assert found.agrees
    assert found.weak == found.checks[:1]
    assert found.checks[0].resolution > WEAK >= found.checks[1].resolution
    assert "1 weak (resolving worse than 20 %), the others agree" in found.summary
    assert str(found).startswith("weak    largest |z|")
    arguments = ["verify", "--examples", "2", "--seed", "1", "--only", "2", "--draws", "100"]
    assert cli.main(arguments) == 0
    assert "  2  weak" in capsys.readouterr().out
    assert cli.main([*arguments, "--strict"]) == 1


def test_the_command_agrees(capsys):
    assert cli.main(["verify", "--examples", "2", "--seed", "148"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line[:11] for line in lines if line[:3].strip()]
    assert told[:2] == ["  1  agrees", "  2  agrees"]
    assert max(map(len, lines[:-1])) <= 120
    assert "family-wise false-alarm rate 5.7e-07" in lines[-1]
    assert cli.main(["verify", "--only", "30"]) == 2
    assert "--only" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", [2, 8])
def test_processes_change_nothing(jobs):
    net = Network(activations.linear, Gaussian(1))
    alone, together = (
        verify.verify(3, seed=1, of=net, tensors="K", jobs=number, **QUICK) for number in (1, jobs)
    )
    assert str(together) == str(alone)


def test_what_a_process_refuses_is_told(capsys):
    net = Network(activations.linear, Gaussian(10**200))
    example = Example(net, np.array([0.4, 0.9]), 4, ("K",))
    with pytest.raises(InputError):
        verify.verify([example, example], jobs=2, **QUICK)
    assert capsys.readouterr().err == ""


def test_a_network_of_ones_own():
    """Inputs and depths are drawn; the network is the one given."""
    net = Network(activations.tanh, Orthogonal(sympy.Rational(5, 4)), Gaussian(1))
    found = verify.verify(2, seed=3, of=net, tensors="K", **QUICK)
    assert found.agrees, str(found)
    assert [check.example.net for check in found.checks] == [net, net]
    assert all(check.example.tensors == ("K",) for check in found.checks)


def test_fields_of_ones_own():
    """A cumulant that has no name: of four preactivations and the NTK."""
    made = recursion(["z"] * 4 + ["H"], Gaussian(), pairing=((0, 1), (2, 3), (4, 5)))
    example = Example(Network(activations.linear, Gaussian(1)), np.array([0.4, 0.9]), 2, (made,))
    found = verify.verify(example, **QUICK)
    assert found.agrees, str(found)
    assert any(row.theory for row in found.checks[0].comparison.rows)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"examples": 0}, "examples"),
        ({"examples": []}, "examples"),
        ({"examples": ["V"]}, "examples"),
        ({"examples": [drawn(1, 1)], "tensors": "V"}, "examples"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"jobs": 0}, "jobs"),
        ({"widths": (24,)}, "widths"),
        ({"false_alarms": 0.0}, "false_alarms"),
        ({"examples": 1, "of": "tanh"}, "of"),
    ],
)
def test_errors_name_the_argument(arguments, name):
    with pytest.raises(InputError, match=name):
        verify.verify(**arguments)


def test_a_single_example_checks_its_seed_too(capsys):
    assert cli.main(["verify", "--examples", "5", "--only", "2", "--seed", "-1"]) == 2
    assert capsys.readouterr().err.startswith("wickgarten: seed: got -1")


PLAIN = Example(Network(activations.tanh, Gaussian(1.5), C_b=0.5), np.array([0.4, 0.9]), 2, ("K",))


def test_the_faults_of_the_list_are_there_and_change_the_theory():
    """Each kind is drawn; each of the first of its kind gives another K or V."""
    example = Example(
        Network(activations.tanh, Orthogonal(1.5), Gaussian(1.5), C_b=0.5, lambda_W=0.5),
        np.array([0.4, 0.9]),
        3,
        ("Theta", "V"),
    )
    every = list(drawn_faults(example, 0))
    assert {fault.kind for fault in every} == set(KINDS) - {"block"}
    assert [str(each) for each in drawn_faults(example, 0)] == list(map(str, every))
    right = flow(example.net, example.inputs, 3, example.tensors, width=10**6)
    changed = set()
    for fault in every:
        if fault.kind not in changed:
            wrong = fault.theory(example, 10**6)
            if not all(np.allclose(wrong[name], right[name]) for name in example.tensors):
                changed.add(fault.kind)
    assert changed == set(KINDS) - {"block"}  # of other layers than the dense one


def test_a_fault_of_one_term_is_that_alone():
    """K = C_W ⟨σσ⟩ + C_b: half of it is left without C_b, and twice C_b is added with it twice."""
    table = flow(PLAIN.net, PLAIN.inputs, 2, ["K"])["K"].to_numpy()
    wanted = {
        "term": table[1] - 0.5,
        "factor 2": table[1] + 0.5,
        "sign": table[1] - 1.0,
        "factor": table[1] + 0.5,  # 1 in place of C_b
    }
    found = {
        fault.kind: fault.theory(PLAIN, 10)["K"].to_numpy()[1]
        for fault in drawn_faults(PLAIN, 0)
        if isinstance(fault, OfTerm)
        and (fault.target.label, fault.where) == ("K", "ℓ+1")
        and fault.spelled in {"C_b", "C_b of C_b"}
    }
    assert found == pytest.approx(wanted, rel=1e-12)


def test_planted_faults_are_found_and_a_right_theory_is_none(monkeypatch):
    assert [each.found for each in plant_faults(PLAIN, 6, draws=4000)] == [True] * 6
    monkeypatch.setattr(OfTerm, "__call__", lambda self, step: step)
    monkeypatch.setattr(OfNetwork, "theory", lambda self, example, width: right(example))
    monkeypatch.setattr(OfLayers, "theory", lambda self, example, width: right(example))

    def right(example):
        return flow(example.net, example.inputs, example.depth, beside(example))

    assert plant_faults(PLAIN, 1, draws=4000) == ()


@pytest.mark.parametrize("layer", ["normalized(layer)", "residual(skip=1/2, norm=rms)"])
def test_faults_of_layers_are_found_stage_by_stage(layer):
    net = Network(activations.tanh, Gaussian(1.5), C_b=0.5, layer=layer)
    example = Example(net, np.array([0.4, 0.9]), 3, ("K", "V"), 5)
    where = {each.where for each in drawn_faults(example, 0) if isinstance(each, OfTerm)}
    assert where == {"1", *(f"ℓ+1, stage {k}" for k, _ in enumerate(net.layer.stages, start=1))}
    assert [each.found for each in plant_faults(example, 8, draws=4000)] == [True] * 8
    dense = OfNetwork("block", replace(net, layer="dense"), "dense layers")
    assert dense in list(drawn_faults(example, 0))


def test_a_fault_that_breaks_a_symmetry_of_a_tensor_is_compared_all_the_same():
    """Components that are one number rightly are several then, each held against that one."""

    def row(indices, theory, sample):
        return Row("V", 2, indices, theory, sample, 0.01, 0.0, 0.0, theory, theory)

    right = [row((0, 0, 1, 1), 2.0, 2.1), row((0, 1, 0, 1), 1.0, 1.1), row((1,), 3.0, 3.0)]
    wrong = [
        row((0, 0, 1, 1), 2.5, 2.1),
        row((1, 1, 0, 0), 2.6, 2.1 + 1e-15),
        row((0, 1, 0, 1), 1.5, 1.1),
        row((1,), 3.5, 3.0),
    ]
    given = Comparison(tuple(right), 5.0, 1e-6, (8,), 0)
    pairs = paired(given, replace(given, rows=tuple(wrong)))
    assert [(own.theory, other.theory) for own, other in pairs] == [
        (2.0, 2.5),
        (2.0, 2.6),
        (1.0, 1.5),
        (3.0, 3.5),
    ]


def test_a_fault_of_a_layer_is_made_small_with_the_layer(monkeypatch):
    """K wrong behind norms: what is left is the plainest of them."""
    plant(monkeypatch, "K", 1.5, lambda net, *_: not net.layer.is_dense)
    net = Network(activations.tanh, Orthogonal(1.5), layer="gated(skip=1/2, norm=layer)")
    (check,) = verify.verify(Example(net, np.array([0.3, -0.8]), 3, ("K",)), **QUICK).smallest
    assert check.example.net == Network(activations.linear, Gaussian(1), layer="normalized(rms)")


def test_a_fault_that_is_missed_is_told(monkeypatch):
    """A comparison that always agrees misses every fault."""
    right = planting.compare
    monkeypatch.setattr(planting, "compare", lambda *given: replace(right(*given), bound=np.inf))
    (planted,) = plant_faults(PLAIN, 1, draws=4000)
    assert planted.missed
    assert str(planted).startswith("MISSED: ")


def test_the_command_writes_every_number(monkeypatch, tmp_path):
    monkeypatch.setattr(examples, "ALL_DERIVATIVES", (("K",),))
    monkeypatch.setattr(examples, "FIRST_DERIVATIVES", (("K",),))
    path = tmp_path / "verified.json"
    arguments = ["verify", "--examples", "2", "--seed", "1", "--jobs", "1", "--json", str(path)]
    assert cli.main(arguments) == 0
    written = json.loads(path.read_text())
    assert [each["verdict"] for each in written["examples"]] == ["agrees", "agrees"]
    resolutions = [[row["resolution"] for row in each["rows"]] for each in written["examples"]]
    assert [each["resolution"] for each in written["examples"]] == list(map(max, resolutions))
