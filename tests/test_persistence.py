from __future__ import annotations

import copy
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import ibp
from ibp import MEIBP
from ibp.persistence import VERSION, ModelFileError
from problems import plain

ARRAYS = (
    "components_",
    "components_std_",
    "factor_location_",
    "factor_scale_",
    "feature_counts_",
    "intercept_",
)
# Of each column, or of all: arrays of the file, or numbers in its header.
BY_COLUMN = ("noise_std_", "factor_std_")
SCALARS = (
    "n_components_",
    "n_features_in_",
    "n_samples_fit_",
    "alpha_",
    *BY_COLUMN,
    "evidence_",
    "n_iter_",
    "converged_",
)
HEADER_KEYS = (
    "format",
    "version",
    "class",
    "parameters",
    "scalars",
    "evidence_parts",
    "history",
    "feature_names",
    "notes",
)


def make_data(n_samples=45, seed=0):
    rng = np.random.default_rng(seed)
    assignments = rng.random((n_samples, 3)) < 0.4
    factors = rng.uniform(0.5, 2.0, size=(3, 5))
    data = np.clip(assignments @ factors + rng.normal(0, 0.2, size=(n_samples, 5)), 0, None)
    data[rng.random(data.shape) < 0.1] = np.nan
    return data


@pytest.fixture(scope="module")
def model():
    return MEIBP(4, noise_std=0.3, learn_hyperparameters=True, random_state=0).fit(make_data())


@pytest.fixture(scope="module")
def shared_model():
    """A model with one noise level for all columns and no moves, as the only ones once were."""
    settings = {"noise": "shared", "noise_std": 0.3, "moves": False, "random_state": 0}
    return MEIBP(4, **settings).fit(make_data())


def bytes_of(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.ibp"
    model.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    """The bytes of a saved model."""
    return bytes_of(model, tmp_path_factory)


@pytest.fixture(scope="module")
def saved_shared(shared_model, tmp_path_factory):
    """The bytes of a saved model with shared noise."""
    return bytes_of(shared_model, tmp_path_factory)


def difference(one, other):
    """Name of the first attribute in which two models differ, bit for bit; None if none does."""
    # The sums that partial_fit goes on from are in no file.
    one_has, other_has = (vars(model).keys() - {"_past"} for model in (one, other))
    if type(one) is not type(other) or one_has != other_has:
        return "attributes"
    for name in one_has:
        value = vars(one)[name]
        theirs = vars(other)[name]
        if type(value) is not type(theirs):
            return name
        pairs = [(value, theirs)]
        if isinstance(value, dict):
            if list(value) != list(theirs):
                return name
            pairs = [(value[key], theirs[key]) for key in value]
        for a, b in pairs:
            a, b = np.asarray(a), np.asarray(b)
            if a.dtype != b.dtype or a.shape != b.shape or not np.array_equal(a, b):
                return name
    return None


def load_bytes(content, directory):
    path = directory / "candidate.ibp"
    path.write_bytes(content)
    return ibp.load(path)


def rewrite(saved, directory, *, change_header=None, change_arrays=None, raw_header=None):
    """A well-formed archive with other content."""
    source, target = directory / "source.ibp", directory / "tampered.ibp"
    source.write_bytes(saved)
    with np.load(source, allow_pickle=False) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    if change_header is not None:
        change_header(header)
    if change_arrays is not None:
        change_arrays(arrays)
    if "header" in arrays:
        encoded = json.dumps(header).encode() if raw_header is None else raw_header
        arrays["header"] = np.frombuffer(encoded, dtype=np.uint8)
    with target.open("wb") as file:
        np.savez(file, **arrays)
    return target


# Round trips


@pytest.mark.parametrize("kind", ["model", "shared_model"])
@pytest.mark.parametrize("as_string", [True, False])
def test_round_trip_is_bit_identical(request, tmp_path, kind, as_string):
    model = request.getfixturevalue(kind)
    path = tmp_path / "model.with.dots and spaces é"
    model.save(str(path) if as_string else path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    loaded = ibp.load(str(path) if as_string else path)
    assert difference(model, loaded) is None
    assert loaded.assignments_.dtype == np.uint8
    for name in BY_COLUMN:
        assert np.shape(getattr(loaded, name)) == ((5,) if kind == "model" else ())
    assert loaded.get_params() == model.get_params()
    new = make_data(20, seed=5)
    np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
    np.testing.assert_array_equal(loaded.confidence(new), model.confidence(new))
    np.testing.assert_array_equal(loaded.impute(new), model.impute(new))
    assert loaded.score(new) == model.score(new)
    for ours, theirs in zip(
        loaded.sample(3, random_state=1), model.sample(3, random_state=1), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_saving_again_gives_the_same_model(model, tmp_path):
    model.save(tmp_path / "a")
    ibp.load(tmp_path / "a").save(tmp_path / "b")
    assert difference(model, ibp.load(tmp_path / "b")) is None


@pytest.mark.parametrize("n_components", [1, 7, 8, 9, 17])
def test_packed_assignments_of_every_width(tmp_path, n_components):
    rng = np.random.default_rng(n_components)
    data = rng.random((30, 4)) * 5
    assignments = (rng.random((30, n_components)) < 0.5).astype(np.uint8)
    assignments[0] = 1
    init = {
        "Z": assignments,
        "mu": rng.random((n_components, 4)),
        "sigma": np.full((n_components, 4), 0.1),
    }
    fitted = MEIBP(init=init, max_iter=0, tol=0).fit(data)
    assert fitted.n_components_ == n_components
    fitted.save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.assignments_, assignments)


def test_feature_names(tmp_path):
    names = ["plain", "Größe in µm", "名前", "a\nb", "😀"]
    frame = pd.DataFrame(make_data(), columns=names)
    fitted = MEIBP(3, random_state=0).fit(frame)
    fitted.save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    assert loaded.feature_names_in_.dtype == object
    assert loaded.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(loaded.transform(frame), fitted.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame.rename(columns={"plain": "other"}))


def test_model_without_feature_names_has_none(model, tmp_path):
    model.save(tmp_path / "model")
    assert not hasattr(ibp.load(tmp_path / "model"), "feature_names_in_")


def test_assignments_can_be_left_out(tmp_path):
    data = make_data()
    fitted = MEIBP(4, noise_std=0.3, random_state=0).fit(data)
    fitted.save(tmp_path / "with")
    fitted.save(tmp_path / "without", assignments=False)
    loaded = ibp.load(tmp_path / "without")
    assert not hasattr(loaded, "assignments_")
    np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))
    assert loaded.n_samples_fit_ == 45
    with pytest.raises(ValueError, match="assignments_"):
        MEIBP(init=loaded).fit(data)
    loaded.save(tmp_path / "again")
    assert not hasattr(ibp.load(tmp_path / "again"), "assignments_")
    loaded.fit(data)
    np.testing.assert_array_equal(loaded.assignments_, fitted.assignments_)


def test_loaded_model_as_init(tmp_path):
    data = make_data()
    MEIBP(4, noise_std=0.3, random_state=0).fit(data).save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    continued = MEIBP(noise_std=0.3, init=loaded).fit(data)
    assert continued.evidence_ >= loaded.evidence_ - 1e-9 * abs(loaded.evidence_)


@pytest.mark.parametrize("assignments", [True, False])
def test_model_without_features(tmp_path, assignments):
    data = make_data()
    with pytest.warns(UserWarning, match="No feature survived"):
        fitted = plain(4, noise_std=100.0, random_state=0).fit(data)
    assert fitted.n_components_ == 0
    fitted.save(tmp_path / "model", assignments=assignments)
    loaded = ibp.load(tmp_path / "model")
    if assignments:
        assert difference(fitted, loaded) is None
        assert loaded.assignments_.shape == (45, 0)
    assert loaded.transform(data).shape == (45, 0)
    assert loaded.score(data) == fitted.score(data)
    np.testing.assert_array_equal(loaded.impute(data), np.nan_to_num(data))


def test_model_with_nothing_but_an_intercept(tmp_path):
    data = np.random.default_rng(0).normal(3.0, 1.0, size=(45, 5))
    with pytest.warns(UserWarning, match="No feature survived"):
        fitted = MEIBP(random_state=0).fit(data)
    fitted.save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    assert difference(fitted, loaded) is None
    np.testing.assert_allclose(loaded.inverse_transform(np.ones((1, 0)))[0], 3.0, atol=0.6)


def test_model_without_sweeps(tmp_path):
    fitted = MEIBP(4, time_limit=0, tol=0, random_state=0).fit(make_data())
    fitted.save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    assert difference(fitted, loaded) is None
    assert {name: values.dtype for name, values in loaded.history_.items()} == {
        name: values.dtype for name, values in fitted.history_.items()
    }


def test_plain_parameters_are_kept(tmp_path):
    settings = {
        "n_components": np.int64(4),
        "alpha": np.float32(2.5),
        "noise_std": np.float64(0.3),
        "learn_hyperparameters": np.bool_(True),
        "hyperpriors": {"alpha": (2.0, 3.0)},
        "prior": "lof",
        "optimizer": "exact",
        "node_budget": 123,
        "block_size": np.int32(7),
        "max_iter": 30,
        "random_state": np.int64(9),
        "n_jobs": 1,
        "time_limit": None,
    }
    fitted = MEIBP(**settings).fit(make_data())
    fitted.save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    for name, value in settings.items():
        ours = getattr(loaded, name)
        if name == "hyperpriors":
            assert {key: tuple(pair) for key, pair in ours.items()} == value
        else:
            assert ours == value
            assert not isinstance(ours, np.generic)
    refitted = clone(loaded).fit(make_data())
    np.testing.assert_array_equal(refitted.components_, fitted.components_)


def test_numbers_of_each_column_as_parameters_are_kept(tmp_path):
    noise_std, factor_std = np.linspace(0.2, 0.4, 5), np.linspace(1.0, 2.0, 5)
    fitted = MEIBP(4, noise_std=noise_std, factor_std=factor_std, random_state=0).fit(make_data())
    fitted.save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.noise_std, noise_std)
    np.testing.assert_array_equal(loaded.factor_std, factor_std)
    refitted = clone(loaded).fit(make_data())
    np.testing.assert_array_equal(refitted.components_, fitted.components_)
    np.testing.assert_array_equal(refitted.noise_std_, fitted.noise_std_)


def test_a_model_with_a_column_that_does_not_vary(tmp_path):
    data = make_data()
    data[:, 2] = 3.0
    fitted = MEIBP(4, random_state=0).fit(data)
    fitted.save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    assert difference(fitted, loaded) is None
    np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))
    assert loaded.score(data) == fitted.score(data)


def test_other_parameters_fall_back_to_their_defaults(tmp_path):
    data = make_data()
    rng = np.random.default_rng(0)
    start = {"Z": rng.random((45, 2)) < 0.5, "mu": np.ones((2, 5)), "sigma": np.ones((2, 5))}
    fitted = MEIBP(
        init=start,
        callbacks=[lambda progress: None],
        random_state=np.random.default_rng(3),
        noise_std=0.3,
    ).fit(data)
    fitted.save(tmp_path / "model")
    loaded = ibp.load(tmp_path / "model")
    assert loaded.init == "auto"
    assert loaded.callbacks is None
    assert loaded.random_state is None
    assert loaded.noise_std == 0.3
    np.testing.assert_array_equal(loaded.transform(data), fitted.transform(data))


@pytest.mark.parametrize("name", ["init", "random_state"])
def test_objects_as_parameters_do_not_stop_saving(tmp_path, model, name):
    data = make_data()
    value = {"init": model, "random_state": np.random.RandomState(0)}[name]
    fitted = MEIBP(4, **{name: value}).fit(data)
    fitted.save(tmp_path / "model")
    assert getattr(ibp.load(tmp_path / "model"), name) == getattr(MEIBP(), name)


def test_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        MEIBP().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# The file itself


def test_file_is_a_plain_archive(model, saved, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(saved)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert all(name.endswith(".npy") for name in archive.namelist())
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    assert not any(array.dtype.hasobject for array in arrays.values())
    packed = arrays["assignments_packed"]
    assert packed.dtype == np.uint8
    assert packed.shape == (45, 1)
    header = json.loads(arrays["header"].tobytes().decode("utf-8"))
    assert header["format"] == "ibp-model"
    assert header["version"] == VERSION == 6
    assert header["class"] == "MEIBP"
    for name in BY_COLUMN:
        assert arrays[name].shape == (5,)
        assert name not in header["scalars"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_permissions_follow_the_umask(model, tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        model.save(tmp_path / "model")
    finally:
        os.umask(before)
    assert (tmp_path / "model").stat().st_mode & 0o777 == mode


def test_existing_file_is_replaced(model, tmp_path):
    path = tmp_path / "model"
    path.write_text("old " * 10_000)
    model.save(path)
    assert difference(model, ibp.load(path)) is None
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("exists", [True, False])
def test_failure_while_writing_leaves_everything_as_it_was(
    model, tmp_path, monkeypatch, error, exists
):
    path = tmp_path / "model"
    if exists:
        path.write_bytes(b"the old file")

    def fail_midway(file, *args, **arrays):
        file.write(b"half of the new")
        raise error

    monkeypatch.setattr(np, "savez", fail_midway)
    with pytest.raises(type(error)):
        model.save(path)
    if exists:
        assert path.read_bytes() == b"the old file"
    assert [p.name for p in tmp_path.iterdir()] == (["model"] if exists else [])


def test_failure_while_replacing_leaves_everything_as_it_was(model, tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(b"the old file")

    def refuse(self, target):
        raise PermissionError("replace refused")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(PermissionError, match="refused"):
        model.save(path)
    assert path.read_bytes() == b"the old file"
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_saving_into_a_missing_directory(model, tmp_path):
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "nowhere" / "model")


# Damage


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        ibp.load(tmp_path / "nothing here")


def test_directory(tmp_path):
    with pytest.raises((IsADirectoryError, PermissionError)):
        ibp.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"P",
        b"PK",
        b"PK\x03\x04",
        b"PK\x05\x06" + b"\0" * 18,
        b"\0" * 1000,
        b"plain text, not a model\n" * 50,
        b"\x93NUMPY",
        b"\x80\x05}\x94.",
    ],
)
def test_something_else_altogether(tmp_path, content):
    with pytest.raises(ModelFileError, match="candidate.ibp is not an ibp model file"):
        load_bytes(content, tmp_path)


def test_numpy_files_that_are_not_models(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(5.0))
    with pytest.raises(ModelFileError, match="not an ibp model file"):
        ibp.load(tmp_path / "array.npy")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ModelFileError, match="not an ibp model file"):
        ibp.load(tmp_path / "objects.npy")
    np.savez(tmp_path / "arrays.npz", components_=np.ones((2, 3)))
    with pytest.raises(ModelFileError, match="not an ibp model file"):
        ibp.load(tmp_path / "arrays.npz")
    np.savez(tmp_path / "header.npz", header=np.arange(5.0))
    with pytest.raises(ModelFileError, match="not an ibp model file"):
        ibp.load(tmp_path / "header.npz")


def test_zip_that_is_not_a_model(tmp_path):
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as archive:
        archive.writestr("header", "a text")
    with pytest.raises(ModelFileError, match="not an ibp model file"):
        ibp.load(tmp_path / "texts.zip")


def test_truncated_files(saved, tmp_path):
    lengths = sorted({*range(0, len(saved), 37), *range(len(saved) - 80, len(saved))})
    for length in lengths:
        with pytest.raises(ModelFileError, match="damaged|not an ibp model file"):
            load_bytes(saved[:length], tmp_path)


def test_error_names_the_file_and_a_remedy(saved, tmp_path):
    with pytest.raises(ModelFileError, match=r"candidate\.ibp.*damaged.*again") as caught:
        load_bytes(saved[: len(saved) // 2], tmp_path)
    assert isinstance(caught.value, ValueError)


def outcome_of_damage(model, content, directory):
    """None if the damage did no harm or was noticed, else what happened."""
    try:
        loaded = load_bytes(content, directory)
    except ModelFileError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    changed = difference(model, loaded)
    return None if changed is None else f"{changed} silently changed"


def harm_from_flips(model, saved, directory, positions_and_bits):
    harm = {}
    for position, bit in positions_and_bits:
        damaged = bytearray(saved)
        damaged[position] ^= 1 << bit
        outcome = outcome_of_damage(model, bytes(damaged), directory)
        if outcome is not None:
            harm.setdefault(outcome, (position, bit))
    return harm


def test_flipped_bits_here_and_there(model, saved, tmp_path):
    flips = [(position, position * 5 % 8) for position in range(0, len(saved), 4)]
    assert harm_from_flips(model, saved, tmp_path, flips) == {}


def test_flipped_bits_in_the_directory_of_the_archive(model, saved, tmp_path):
    # Where flags and compression methods are, which zipfile refuses in its own ways.
    start = saved.index(b"PK\x01\x02")
    flips = [(position, bit) for position in range(start, start + 60) for bit in range(8)]
    assert harm_from_flips(model, saved, tmp_path, flips) == {}


@pytest.mark.parametrize(
    "member", ["history_evidence", "history_n_changed", "components_", "noise_std_"]
)
def test_flipped_bits_in_the_description_of_an_array(model, saved, tmp_path, member):
    # A shape made smaller leaves bytes unread, and with them the checksum unchecked.
    start = saved.index(f"{member}.npy".encode())
    start = saved.index(b"\x93NUMPY", start)
    length = int.from_bytes(saved[start + 8 : start + 10], "little")
    text = saved[start + 10 : start + 10 + length].rstrip()
    positions = range(start, start + 10 + len(text))
    flips = [(position, bit) for position in positions for bit in range(8)]
    assert harm_from_flips(model, saved, tmp_path, flips) == {}


def test_flipped_bits_in_the_description_of_a_long_array(model, tmp_path):
    # Small members are read, and checked, in one go; long ones are not.
    long = copy.deepcopy(model)
    long.n_iter_ = 600
    long.history_ = {
        name: np.arange(600).astype(values.dtype) for name, values in model.history_.items()
    }
    long.history_["evidence"][-1] = model.evidence_
    long.save(tmp_path / "model")
    saved = (tmp_path / "model").read_bytes()
    assert difference(long, ibp.load(tmp_path / "model")) is None
    positions = [
        position
        for position in range(len(saved) - 6)
        if saved[position : position + 6] == b"(600,)"
    ]
    assert len(positions) == len(long.history_)
    flips = [(start + i, bit) for start in positions for i in range(6) for bit in range(8)]
    assert harm_from_flips(long, saved, tmp_path, flips) == {}


def test_flipped_bits_in_the_data_are_noticed(saved, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(saved)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    for member in members:
        # A local file header has 30 bytes, then the name and extra fields.
        start = member.header_offset
        name_length = int.from_bytes(saved[start + 26 : start + 28], "little")
        extra_length = int.from_bytes(saved[start + 28 : start + 30], "little")
        end = start + 30 + name_length + extra_length + member.compress_size
        for position in (end - 1, end - 5, (end - 8) - (end - 8 - start) // 4):
            if position < end - member.compress_size + 128:
                continue  # still the array's description
            damaged = bytearray(saved)
            damaged[position] ^= 0x10
            with pytest.raises(ModelFileError, match="damaged"):
                load_bytes(bytes(damaged), tmp_path)


@pytest.mark.long
def test_every_flipped_bit(model, saved, tmp_path):
    flips = [(position, bit) for position in range(len(saved)) for bit in range(8)]
    assert harm_from_flips(model, saved, tmp_path, flips) == {}


def test_overwritten_stretches(model, saved, tmp_path):
    rng = np.random.default_rng(0)
    harm = set()
    for _ in range(300):
        damaged = bytearray(saved)
        start = int(rng.integers(len(saved)))
        stretch = rng.bytes(int(rng.integers(1, 64)))[: len(saved) - start]
        damaged[start : start + len(stretch)] = stretch
        harm.add(outcome_of_damage(model, bytes(damaged), tmp_path))
    assert harm - {None} == set()


def test_a_file_is_left_alone_if_asked_to(model, tmp_path):
    path = tmp_path / "model.ibp"
    path.write_text("something of the user's")
    with pytest.raises(FileExistsError, match=r"model\.ibp"):
        model.save(path, overwrite=False)
    assert path.read_text() == "something of the user's"
    assert list(tmp_path.iterdir()) == [path]
    model.save(path)
    assert difference(model, ibp.load(path)) is None
    model.save(tmp_path / "another.ibp", overwrite=False)
    assert difference(model, ibp.load(tmp_path / "another.ibp")) is None


# Files of other versions, and tampered ones


@pytest.mark.parametrize("version", [VERSION + 1, 99])
def test_newer_version(saved, tmp_path, version):
    path = rewrite(saved, tmp_path, change_header=lambda h: h.update(version=version))
    with pytest.raises(ModelFileError, match=rf"newer version.*{version}.*Upgrade"):
        ibp.load(path)


def test_the_first_version_had_no_intercept(saved_shared, tmp_path):
    def change_header(header):
        header["version"] = 1
        header["evidence_parts"].pop("intercept")
        header["history"].remove("proven")
        for name in ("fit_intercept", "noise", "block_size", "n_jobs"):
            del header["parameters"][name]

    def change_arrays(arrays):
        del arrays["intercept_"], arrays["history_proven"]

    path = rewrite(saved_shared, tmp_path, change_header=change_header, change_arrays=change_arrays)
    loaded = ibp.load(path)
    assert loaded.intercept_.tolist() == [0.0] * 5
    assert loaded.intercept_.dtype == np.float64
    assert loaded.evidence_parts_["intercept"] == 0.0
    codes = loaded.transform(make_data())
    np.testing.assert_allclose(loaded.inverse_transform(codes), codes @ loaded.components_)
    loaded.save(tmp_path / "again")
    assert difference(loaded, ibp.load(tmp_path / "again")) is None
    # What a file does not name has its default, but a model without an intercept was not fitted
    # with one, nor with noise of each column.
    assert loaded.fit_intercept is False
    assert loaded.noise == "shared"


def test_the_second_version_knew_nothing_of_restarts(saved_shared, tmp_path):
    def change_header(header):
        header["version"] = 2
        del header["parameters"]["noise"]
        del header["notes"], header["scalars"]["ending_"], header["scalars"]["restart_kept_"]

    def change_arrays(arrays):
        for name in ("evidence", "n_components", "similarity"):
            del arrays[f"restart_{name}_"]

    path = rewrite(saved_shared, tmp_path, change_header=change_header, change_arrays=change_arrays)
    loaded = ibp.load(path)
    assert loaded.ending_ == ("converged" if loaded.converged_ else "max_iter")
    assert loaded.notes_ == {} and loaded.restart_kept_ == 0
    assert loaded.restart_evidence_.tolist() == [loaded.evidence_]
    assert loaded.restart_n_components_.tolist() == [loaded.n_components_]
    assert (loaded.restart_similarity_ == np.ones((1, loaded.n_components_))).all()
    loaded.save(tmp_path / "again")
    assert difference(loaded, ibp.load(tmp_path / "again")) is None


def test_the_fourth_version_knew_no_moves(shared_model, saved_shared, tmp_path):
    def change_header(header):
        header["version"] = 4
        del header["parameters"]["moves"], header["scalars"]["baseline_evidence_"]

    loaded = ibp.load(rewrite(saved_shared, tmp_path, change_header=change_header))
    assert not loaded.moves
    assert loaded.baseline_evidence_ is loaded.limit_gain_ is None
    loaded.baseline_evidence_ = shared_model.baseline_evidence_
    assert difference(shared_model, loaded) is None


def test_the_third_version_knew_one_noise_for_all_columns_only(
    shared_model, saved_shared, tmp_path
):
    def change_header(header):
        header["version"] = 3
        del header["parameters"]["noise"]

    loaded = ibp.load(rewrite(saved_shared, tmp_path, change_header=change_header))
    assert loaded.noise == "shared"
    assert type(loaded.noise_std_) is type(loaded.factor_std_) is float
    assert difference(shared_model, loaded) is None
    refitted = clone(loaded).fit(make_data())
    np.testing.assert_array_equal(refitted.components_, shared_model.components_)


def test_the_third_version_of_a_model_that_has_no_choice_of_noise(tmp_path):
    fitted = ibp.FiniteVIBP(3, random_state=0).fit(make_data())
    fitted.save(tmp_path / "model")
    saved = (tmp_path / "model").read_bytes()
    path = rewrite(saved, tmp_path, change_header=lambda h: h.update(version=3))
    assert difference(fitted, ibp.load(path)) is None


@pytest.mark.parametrize("kept", [-1, 1, 99])
def test_the_kept_restart_is_one_of_them(saved, tmp_path, kept):
    path = rewrite(saved, tmp_path, change_header=lambda h: h["scalars"].update(restart_kept_=kept))
    with pytest.raises(ModelFileError, match=rf"restart_kept_ is {kept} of 1 restarts"):
        ibp.load(path)


def test_an_older_file_that_claims_much_takes_no_memory(saved, tmp_path):
    def change_header(header):
        header["version"] = 2
        header["scalars"]["n_components_"] = 10**11

    path = rewrite(saved, tmp_path, change_header=change_header)
    with pytest.raises(ModelFileError, match=r"components_ is float64 of shape"):
        ibp.load(path)


def test_an_ending_is_one_that_there_is(saved, tmp_path):
    change = {"ending_": "<script>"}
    path = rewrite(saved, tmp_path, change_header=lambda h: h["scalars"].update(change))
    with pytest.raises(ModelFileError, match="ending_ is '<script>'"):
        ibp.load(path)


def test_notes_that_could_not_be_read_are_not_written(tmp_path):
    model = MEIBP(2, max_iter=1, tol=0).fit(make_data())
    model.notes_ = ["a", "list"]
    with pytest.raises(ValueError, match="must be a dictionary"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_newer_version_may_have_another_layout(saved, tmp_path):
    def change(header):
        header["version"] = VERSION + 1
        del header["scalars"], header["history"]

    with pytest.raises(ModelFileError, match=r"newer version"):
        ibp.load(rewrite(saved, tmp_path, change_header=change))


@pytest.mark.parametrize("name", ["VIBP", "os.system", "BaseEstimator", "", None])
def test_unknown_class(saved, tmp_path, name):
    path = rewrite(saved, tmp_path, change_header=lambda h: h.update({"class": name}))
    with pytest.raises(ModelFileError, match="does not know"):
        ibp.load(path)


def test_unknown_parameters_are_ignored(model, saved, tmp_path):
    path = rewrite(
        saved, tmp_path, change_header=lambda h: h["parameters"].update(from_the_future=1)
    )
    assert difference(model, ibp.load(path)) is None


@pytest.mark.parametrize("key", HEADER_KEYS)
def test_missing_header_entry(saved, tmp_path, key):
    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved, tmp_path, change_header=lambda h: h.pop(key)))


@pytest.mark.parametrize("key", SCALARS)
def test_missing_scalar(saved_shared, tmp_path, key):
    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved_shared, tmp_path, change_header=lambda h: h["scalars"].pop(key)))


@pytest.mark.parametrize("key", [*ARRAYS, *BY_COLUMN, "history_evidence", "header"])
def test_missing_array(saved, tmp_path, key):
    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved, tmp_path, change_arrays=lambda a: a.pop(key)))


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"format": None},
        {"version": "1"},
        {"version": None},
        {"version": [1]},
        {"class": ["MEIBP"]},
        {"class": {"a": 1}},
        {"parameters": []},
        {"parameters": None},
        {"parameters": "alpha"},
        {"scalars": []},
        {"scalars": None},
        {"evidence_parts": None},
        {"evidence_parts": [1, 2]},
        {"evidence_parts": {"likelihood": "high"}},
        {"history": None},
        {"history": "evidence"},
        {"history": [1]},
        {"feature_names": 5},
        {"feature_names": "abcde"},
        {"feature_names": ["too", "few"]},
        {"feature_names": [1, 2, 3, 4, 5]},
    ],
    ids=repr,
)
def test_wrong_header_entry(saved, tmp_path, change):
    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved, tmp_path, change_header=lambda h: h.update(change)))


@pytest.mark.parametrize(
    "change",
    [
        {"n_components_": 99},
        {"n_components_": -1},
        {"n_components_": "3"},
        {"n_components_": None},
        {"n_features_in_": 4},
        {"n_features_in_": 5.5},
        {"n_samples_fit_": 44},
        {"n_samples_fit_": "many"},
        {"alpha_": "three"},
        {"noise_std_": None},
        {"noise_std_": "small"},
        {"noise_std_": [0.5]},
        {"factor_std_": {}},
        {"evidence_": "high"},
        {"n_iter_": "few"},
        {"converged_": "maybe"},
    ],
    ids=repr,
)
def test_wrong_scalar(saved_shared, tmp_path, change):
    def change_header(header):
        header["scalars"].update(change)

    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved_shared, tmp_path, change_header=change_header))


def problem_of(path):
    """What is said to be wrong inside a file that cannot be a model."""
    with pytest.raises(ModelFileError) as caught:
        ibp.load(path)
    return str(caught.value)


def test_numbers_that_no_fit_gives(saved_shared, tmp_path):
    def with_value(**values):
        return rewrite(saved_shared, tmp_path, change_header=lambda h: h["scalars"].update(values))

    for value in (0.0, -0.3, float("nan")):
        assert "noise_std_ is" in problem_of(with_value(noise_std_=value))
    for version in (0, -1):
        change = {"version": version}
        path = rewrite(saved_shared, tmp_path, change_header=lambda h, c=change: h.update(c))
        assert f"impossible format version {version}" in problem_of(path)
    loaded = ibp.load(with_value(alpha_=2))  # as other programs write a whole number
    assert loaded.alpha_ == 2.0 and type(loaded.alpha_) is float


@pytest.mark.parametrize("name", BY_COLUMN)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda a: a[:-1], "is float64 of shape (4,), not float64 of (5,)"),
        (lambda a: a[:1], "is float64 of shape (1,), not float64 of (5,)"),
        (lambda a: a[:, None], "is float64 of shape (5, 1), not float64 of (5,)"),
        (lambda a: a.sum(), "is float64 of shape (), not float64 of (5,)"),
        (lambda a: a.astype(np.float32), "is float32 of shape (5,), not float64 of (5,)"),
        (lambda a: a * (np.arange(5) != 3), "which is not positive"),
        (lambda a: a * np.where(np.arange(5) == 3, -1.0, 1.0), "has negative entries"),
        (lambda a: np.where(np.arange(5) == 3, np.nan, a), "has entries that are not finite"),
        (lambda a: np.where(np.arange(5) == 3, np.inf, a), "has entries that are not finite"),
    ],
)
def test_noise_of_the_columns_that_no_fit_gives(saved, tmp_path, name, change, problem):
    def change_arrays(arrays):
        arrays[name] = np.asarray(change(arrays[name]))

    told = problem_of(rewrite(saved, tmp_path, change_arrays=change_arrays))
    assert f"{name} " in told
    assert problem in told


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("components_std_", lambda a: -a, "components_std_ has negative entries"),
        (
            "components_",
            lambda a: np.where(a > a.mean(), np.nan, a),
            "components_ has entries that",
        ),
        ("intercept_", lambda a: a + np.inf, "intercept_ has entries that are not finite"),
        ("history_evidence", lambda a: a.astype(complex), "the history of evidence is of type"),
        ("history_move", lambda a: np.zeros(a.shape), "the history of move is of type float64"),
    ],
)
def test_arrays_that_no_fit_gives(saved, tmp_path, name, change, problem):
    def change_arrays(arrays):
        arrays[name] = change(arrays[name])

    assert problem in problem_of(rewrite(saved, tmp_path, change_arrays=change_arrays))


@pytest.fixture(scope="module")
def saved_samples(tmp_path_factory):
    """The bytes of a saved model with samples of the posterior."""
    path = tmp_path_factory.mktemp("models") / "samples.ibp"
    ibp.AcceleratedGibbs(2, max_iter=8, thin=2, random_state=0).fit(make_data()).save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("n_components", lambda a: a[:0], "there is no sample"),
        ("n_components", lambda a: a - 3, "a negative number of features"),
        ("feature_counts", lambda a: a * 0, "samples_feature_counts has impossible counts"),
        ("feature_counts", lambda a: a + 45, "samples_feature_counts has impossible counts"),
        ("noise_std", lambda a: a * 0, "samples_noise_std has entries that are not positive"),
        ("components", lambda a: a * np.nan, "samples_components has entries that are not finite"),
    ],
)
def test_samples_that_no_chain_gives(saved_samples, tmp_path, name, change, problem):
    def change_arrays(arrays):
        arrays[f"samples_{name}"] = change(arrays[f"samples_{name}"])

    assert problem in problem_of(rewrite(saved_samples, tmp_path, change_arrays=change_arrays))


@pytest.mark.parametrize("name", [*ARRAYS, "assignments_packed"])
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[:-1],
        lambda a: a[..., None],
        lambda a: a.ravel()[:0],
        lambda a: a.astype("U3"),
        lambda a: a.astype(complex),
    ],
    ids=["shorter", "deeper", "empty", "text", "complex"],
)
def test_wrong_array(saved, tmp_path, name, change):
    def change_arrays(arrays):
        arrays[name] = change(arrays[name])

    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved, tmp_path, change_arrays=change_arrays))


def test_history_of_unequal_lengths(saved, tmp_path):
    def change_arrays(arrays):
        arrays["history_seconds"] = arrays["history_seconds"][:-1]

    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved, tmp_path, change_arrays=change_arrays))


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"\xff\xfe\x00", b"[1, 2]", b'"text"', b"null", b"[" * 100_000],
    ids=["empty", "cut", "not text", "list", "string", "null", "nested"],
)
def test_header_that_is_not_ours(saved, tmp_path, raw):
    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved, tmp_path, raw_header=raw))


def test_pickled_members_are_refused(saved, tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was executed",))

    def change_arrays(arrays):
        arrays["components_"] = np.array([[Trap()]], dtype=object)

    with pytest.raises(ModelFileError):
        ibp.load(rewrite(saved, tmp_path, change_arrays=change_arrays))


def test_a_link_stays_a_link(model, tmp_path):
    target, link = tmp_path / "target.ibp", tmp_path / "link.ibp"
    target.write_bytes(b"old")
    link.symlink_to(target)
    model.save(link)
    assert link.is_symlink()
    assert ibp.load(target).n_components_ == model.n_components_


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("feature_counts_", lambda a: a * 0 + 9999, "feature_counts_ has 9999 of 45 rows"),
        ("feature_counts_", lambda a: a * 0 + 1, "feature_counts_ are not those of"),
        ("restart_n_components_", lambda a: a + 1, "but the restart that was kept has"),
        ("restart_n_components_", lambda a: a - 99, "restart_n_components_ has negative"),
        ("restart_similarity_", lambda a: a + 4, "restart_similarity_ has entries beyond 1"),
    ],
)
def test_numbers_that_contradict_each_other(saved, tmp_path, name, change, problem):
    def change_arrays(arrays):
        arrays[name] = change(arrays[name])

    assert problem in problem_of(rewrite(saved, tmp_path, change_arrays=change_arrays))


def test_weights_of_features_that_rows_lack(tmp_path):
    path = tmp_path / "weighted.ibp"
    MEIBP(2, codes="weighted", max_iter=2, tol=0, random_state=0).fit(make_data()).save(path)
    ibp.load(path)

    def change_arrays(arrays):
        arrays["weights_"] = arrays["weights_"] + 0.5

    path = rewrite(path.read_bytes(), tmp_path, change_arrays=change_arrays)
    assert "weights_ has entries where rows lack the feature" in problem_of(path)


def test_numbers_without_end(saved, tmp_path):
    path = rewrite(saved, tmp_path, change_header=lambda h: h["scalars"].update(evidence_=1e400))
    assert "evidence_ is inf, which is not finite" in problem_of(path)


def test_what_would_unpack_to_far_more_than_it_is(saved, tmp_path, monkeypatch):
    source, packed = tmp_path / "source.ibp", tmp_path / "packed.ibp"
    source.write_bytes(saved)
    with np.load(source) as archive:
        arrays = dict(archive)
    with packed.open("wb") as file:
        np.savez_compressed(file, **arrays)
    ibp.load(packed)  # packed by somebody, and a model all the same
    with packed.open("wb") as file:
        np.savez_compressed(file, **arrays, more=np.zeros(2_000_000))
    monkeypatch.setattr(np, "load", None)  # nothing is unpacked
    assert "it would unpack to 16 MB, which is too much for its size" in problem_of(packed)


def test_an_array_that_claims_more_than_it_holds(saved, tmp_path):
    source, target = tmp_path / "source.ibp", tmp_path / "target.ibp"
    source.write_bytes(saved)
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name == "intercept_.npy":
                content = content.replace(b"(5,), ", b"(5000000000000,), ")[: len(content)]
            after.writestr(name, content)
    assert "intercept_ is no array, or claims more entries than it holds" in problem_of(target)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("evidence_", 1e90),
        ("evidence_", -1e9),
        ("alpha_", 1e300),
        ("alpha_", 1e-300),
        ("n_iter_", 10**400),
    ],
)
def test_values_that_no_fit_gives(saved, tmp_path, name, value):
    path = rewrite(
        saved, tmp_path, change_header=lambda header: header["scalars"].update({name: value})
    )
    with pytest.raises(ibp.errors.ModelFileError, match="damaged"):
        ibp.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("restart_evidence_", lambda array: array + 1e6),
        ("history_evidence", lambda array: array + 1e6),
        ("factor_std_", lambda array: array * 1e300),
        ("noise_std_", lambda array: array * 1e-110),
        ("components_", lambda array: array * 1e200),
    ],
)
def test_arrays_out_of_all_bounds(saved, tmp_path, name, change):
    def tamper(arrays):
        arrays[name] = change(arrays[name])

    with pytest.raises(ibp.errors.ModelFileError, match=f"{name}|evidence|times the noise"):
        ibp.load(rewrite(saved, tmp_path, change_arrays=tamper))
