"""Tables: what they say of themselves, that they are saved and opened again, and how they scale."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

from derivations.daneshmand import ensembles as batchnorm
from derivations.nait_saada_tanner import sampling
from derive import Equation, Gaussian, Network, Orthogonal, activations, recursion
from derive.errors import InputError
from numeric import compare, flow, normalise, plot, simulate, spectra
from numeric.tables import layout, natural_size, tensors

TANH = activations.tanh
ONE = np.array([1.0, 0.5, -0.2, 0.3])
TWO = np.stack([ONE, ONE[::-1]])
NET = Network(
    TANH,
    Orthogonal(),
    first_weights=Gaussian("1/3"),
    lambda_b=lambda layer: 0 if layer == 1 else 1 / layer,
    C_W_corrections=(1,),
)
TENSORS = ["K", "V", "kappa(z,z|01;1)", "kappa(H,H,z,z|02 13 45)"]
DAMPED = Equation("D[i,k] = damping W[i,a] W[k,b] s'[a] s'[b] D[a,b]", at_inputs="identity")
OWN = {"tensors": [recursion([DAMPED], pairing="01")], "parameters": {"damping": 0.5}}

TABLES = {
    "flow": lambda: flow(NET, ONE, 3, TENSORS),
    "flow of two": lambda: flow(NET, TWO, 2, ["K", "V"], width=4),
    "simulate": lambda: simulate(NET, ONE, 8, 3, 60, tensors=["K", "G1", "V", "D"], seed=2**64 - 1),
    "simulate of two": lambda: simulate(NET, TWO, 8, 2, 60, tensors=["K", "V"]),
    "one layer": lambda: simulate(NET, TWO[:1], 8, 1, 60, tensors=["K"]),
    "a field of one's own": lambda: simulate(NET, ONE, 8, 2, 60, **OWN),
    "normalise": lambda: normalise(flow(NET, TWO, 2, ["K", "V"])),
    "batchnorm": lambda: batchnorm.simulate(12, 3, 2, 10),
    "Jacobians": lambda: spectra.simulate(Network(TANH), 1.0, 6, 3, 2, layers=[1, 3]),
    "one Jacobian": lambda: spectra.simulate(Network(TANH), 1.0, 6, 3),
    "biases": lambda: sampling.simulate(Network(TANH), ONE, 4, 2, 5, biases="layer"),
}
FORMATS = ["scipy", "h5netcdf", "zarr"]
"""scipy writes netCDF 3 and comes with every install; the others write netCDF 4 and zarr."""


def stored(table, path, engine):
    """The table, saved and opened again."""
    if engine == "zarr":
        table.to_zarr(path, consolidated=False)
        return xarray.open_zarr(path, consolidated=False).load()
    table.to_netcdf(path, engine=engine)
    with xarray.open_dataset(path, engine=engine) as found:
        return found.load()


@pytest.fixture(scope="module", params=TABLES)
def table(request):
    return TABLES[request.param]()


@pytest.mark.parametrize("engine", FORMATS)
def test_a_table_is_opened_as_it_was_saved(table, tmp_path, engine):
    again = stored(table, tmp_path / "table", engine)
    assert again.identical(table)
    for name, variable in table.variables.items():
        assert again[name].dims == variable.dims
        if variable.dtype == float:
            assert again[name].to_numpy().tobytes() == variable.to_numpy().tobytes()
    if "layer" in table[tensors(table)[-1]].dims:
        assert isinstance(plot(again), Figure)


def test_attributes_are_numbers_and_texts(table):
    for described in (table, *table.variables.values()):
        for value in described.attrs.values():
            assert type(value) in (int, float, str)
    json.dumps(table.attrs)
    assert all(table[name].attrs["long_name"] for name in table.data_vars)
    assert table.attrs["version"]


@pytest.mark.parametrize("engine", FORMATS)
@pytest.mark.parametrize("X", [ONE, TWO], ids=["one input", "two inputs"])
def test_what_was_saved_compares_and_scales_alike(tmp_path, engine, X):
    net = Network(TANH)
    pair = flow(net, X, 3, ["K", "G1", "V"]), simulate(net, X, 10, 3, 300, tensors=["K", "V"])
    opened = [stored(each, tmp_path / str(k), engine) for k, each in enumerate(pair)]
    before, after = compare(*pair), compare(*opened)
    assert before.agrees
    assert after.summary == before.summary
    assert set(after.rows) == set(before.rows)
    scaled = [each.wickgarten.normalise() for each in opened]
    assert scaled[0].identical(normalise(pair[0]))
    assert compare(*scaled).rows == compare(*map(normalise, pair)).rows


def test_saving_leaves_no_empty_table(tmp_path):
    """The default engine of a core install, by the name alone."""
    flow(NET, ONE, 2).to_netcdf(tmp_path / "t.nc")
    with xarray.open_dataset(tmp_path / "t.nc") as found:
        assert tensors(found) == ["K", "V"]


def test_both_roads_say_the_same_of_a_network():
    flowed = flow(NET, TWO, 3, "K", width=8)
    sampled = simulate(NET, TWO, 8, 3, 10, tensors="K")
    assert set(flowed.coords) == set(sampled.coords) > {"C_W", "C_b", "lambda_b", "C_W1", "inputs"}
    for name in flowed.coords:
        assert flowed[name].identical(sampled[name])
    np.testing.assert_array_equal(flowed["inputs"], TWO)
    np.testing.assert_array_equal(flowed["lambda_b"], [0, 1 / 2, 1 / 3])
    np.testing.assert_array_equal(flowed["C_W"], [1 / 3, 1, 1])
    assert set(flowed.attrs) == {
        "network", "activation", "activation_expr", "weights", "first_weights", "width", "version",
    }  # fmt: skip
    assert {name: sampled.attrs[name] for name in flowed.attrs} == flowed.attrs


def test_a_symbol_may_have_the_name_of_a_tensor_or_an_attribute():
    for name in ("V", "width", "layer", "inputs"):
        field = Equation(f"D[i,k] = {name} W[i,a] W[k,b] s'[a] s'[b] D[a,b]", at_inputs="identity")
        found = flow(
            Network(TANH), ONE, 2, [recursion([field], pairing="01"), "V"], parameters={name: 0.5}
        )
        np.testing.assert_array_equal(found[f"parameter_{name}"], [0.5, 0.5])
        assert tensors(found) == ["kappa(D|01)", "V"]


def test_a_large_seed_repeats_the_table():
    first = simulate(NET, ONE, 8, 2, 20, tensors="K", seed=2**64 - 1)
    again = simulate(NET, first["inputs"], 8, 2, 20, tensors="K", seed=int(first.attrs["seed"]))
    assert first.identical(again)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_floor_scales_with_the_values(scale):
    """A linear Haar network's V does not fluctuate: the floor alone decides, at every scale of K.

    V = −2K² is met by a table that is off by a part in 10^12, and missed by one off by 10^-9.
    """
    net = Network(activations.linear, Orthogonal())
    flowed = flow(net, np.sqrt(scale) * ONE, 3, ["K", "V"])
    K = flowed["K"].to_numpy()
    rounded = flowed.assign(V_floor=("layer", layout.ACCURACY * K**2))
    np.testing.assert_allclose(normalise(rounded)["V_tilde_floor"], layout.ACCURACY, rtol=1e-13)
    for part, agrees in ((1e-12, True), (1e-9, False)):
        measured = rounded.assign(V=flowed["V"] + part * K**2)
        errors = {f"{name}_se": 0.0 * flowed[name] for name in ("K", "V")}
        sampled = measured.assign(errors).assign_attrs(width=8, blocks=256)
        assert compare(flowed, sampled, degree=0).agrees == agrees
        assert compare(normalise(flowed), normalise(sampled), degree=0).agrees == agrees


def test_the_natural_size_is_what_tensors_are_divided_by():
    """Of one input, for the whole tower; of two, V_{αβγδ} has √(K_αα K_ββ K_γγ K_δδ)."""
    names = ["K", "G1", "V", "Theta", "Theta1", *"DFABPQRSTU"]
    table = flow(Network(TANH), ONE, 3, names)
    divided = normalise(table)
    for name in (each for each in names if each not in {"K", "Theta"}):
        whole = divided[f"{name}_tilde"] * natural_size(name, table)
        np.testing.assert_allclose(whole, table[name], rtol=1e-13)
    pair = flow(Network(TANH), TWO, 2, ["K", "V"])
    own = np.sqrt(np.einsum("laa->la", pair["K"].to_numpy()))
    size = np.einsum("la,lb,lc,ld->labcd", own, own, own, own)
    np.testing.assert_allclose(natural_size("V", pair), size, rtol=1e-13)
    assert natural_size("V", pair.drop_vars("K")) is None
    assert natural_size("gap", pair.rename(V="gap")) is None


def test_twins_go_with_arithmetic_and_may_be_missing():
    flowed = flow(Network(activations.linear, Orthogonal()), 1e-3 * ONE, 2, ["V"])
    sampled = flowed.assign(V_se=0.0 * flowed["V"]).assign_attrs(width=8)
    halved = (-0.5 * sampled).assign_attrs(sampled.attrs)
    assert compare(-0.5 * flowed, halved, degree=0).agrees
    off = sampled.assign(V=(1 + 1e-9) * flowed["V"])
    assert not compare(flowed, off, degree=0).agrees
    assert compare(flowed.assign(V_error=1e-9 * abs(flowed["V"])), off, degree=0).agrees
    assert not compare(flowed.drop_vars("V_error"), off, degree=0).agrees
    assert compare(flowed, off.assign(V_floor=1e-9 * abs(flowed["V"])), degree=0).agrees
    for broken in ("V_error", "V_floor"):
        wrong = {broken: np.nan * flowed["V"]}
        with pytest.raises(InputError, match=f"{broken} with NaN"):
            compare(flowed.assign(wrong), sampled.assign(wrong))


def test_scales_are_averages_over_the_distinct_products():
    """D̃ of three inputs against (A.4) counted out: all orders of the samples, each product once."""
    rng = np.random.default_rng(4)
    K, Theta = (each + each.swapaxes(1, 2) for each in rng.random((2, 2, 3, 3)) + 1)
    dims = "layer", "sample_1", "sample_2", "sample_3", "sample_4"
    D = rng.random((2, 3, 3, 3, 3))
    table = xarray.Dataset(
        {"K": (dims[:3], K), "Theta": (dims[:3], Theta), "D": (dims, D)}, {"layer": [1, 2]}
    )
    scaled = normalise(table)["D_tilde"].to_numpy()
    for at in np.ndindex(3, 3, 3, 3):
        pairs = {(*sorted((a, b)), *sorted((c, d))) for a, b, c, d in itertools.permutations(at)}
        each = [K[:, a, b] * Theta[:, c, d] for a, b, c, d in sorted(pairs)]
        expected = D[(slice(None), *at)] / np.mean(each, axis=0)
        np.testing.assert_allclose(scaled[(slice(None), *at)], expected, rtol=1e-13)


def test_the_error_of_several_inputs_is_divided_entry_by_entry():
    flowed = flow(Network(TANH, Orthogonal()), TWO, 2, ["K", "V"])
    scaled = normalise(flowed)
    ratio = scaled["V_tilde"] / flowed["V"]
    assert scaled["V_tilde_error"].dims == flowed["V"].dims
    np.testing.assert_allclose(scaled["V_tilde_error"], abs(ratio) * flowed["V_error"], rtol=1e-13)


def test_a_table_of_flow_alone_has_its_own_methods():
    """In a process that has asked for nothing else of this library."""
    code = (
        "from derive import Network; from numeric import flow; "
        "print(flow(Network('tanh'), [1.0, 0.5], 2).wickgarten.tensors)"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "['K', 'V']\n"
