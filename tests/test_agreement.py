"""Features of two fits are paired as well as they can be; restarts are kept and compared."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import ibp
from ibp import BNMF, MEIBP, InfiniteVIBP
from ibp import agreement as agreement_module
from ibp.agreement import (
    CAME_BACK,
    IN_PART,
    CompactCodes,
    RestartAgreement,
    match_codes,
    match_features,
    patterns_in_noise,
    restarts_of,
)
from ibp.datasets import make_block_images
from ibp.estimators import observing

matrices = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.just(3)),
    elements=st.floats(-5, 5, allow_subnormal=False),
)


bits = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        *(arrays(np.uint8, st.tuples(st.just(n), st.integers(1, 4)), elements=st.integers(0, 1)),)
        * 2
    )
)


def correlation(a, b):
    varies = a.min() < a.max() and b.min() < b.max()
    return np.corrcoef(a, b)[0, 1] if varies else 0.0


def cosine(a, b):
    if not a.any() or not b.any():
        return 0.0
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # squares of tiny numbers would vanish
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


@given(matrices, matrices)
def test_the_pairs_are_the_best_of_all_pairings(components, others):
    index, similarity = match_features(components, others)
    paired = index >= 0
    assert paired.sum() == min(len(components), len(others))
    assert len(set(index[paired])) == paired.sum()
    assert (similarity[~paired] == 0).all()
    few, many = sorted((components, others), key=len)
    best = max(
        sum(cosine(few[i], many[j]) for i, j in enumerate(chosen))
        for chosen in permutations(range(len(many)), len(few))
    )
    assert similarity.sum() == pytest.approx(best, abs=1e-9)


def test_scale_and_order_do_not_matter_and_flips_only_if_asked_for():
    rng = np.random.default_rng(0)
    components = rng.normal(size=(5, 8))
    order = rng.permutation(5)
    index, similarity = match_features(components, 7.0 * components[order])
    np.testing.assert_array_equal(order[index], np.arange(5))
    np.testing.assert_allclose(similarity, 1.0)
    assert (match_features(components, -components)[1] < 0.999).all()
    np.testing.assert_allclose(match_features(components, -components, flips=True)[1], 1.0)


def test_extreme_sizes_zeros_and_no_features():
    np.testing.assert_allclose(match_features([[1e200, 0]], [[1e-200, 0]])[1], 1.0)
    np.testing.assert_allclose(match_features([[0, 0]], [[1, 0]])[1], 0.0)
    index, similarity = match_features(np.zeros((0, 3)), np.ones((2, 3)))
    assert index.shape == similarity.shape == (0,)
    index, similarity = match_features(np.ones((2, 3)), np.zeros((0, 3)))
    assert index.tolist() == [-1, -1]
    with pytest.raises(ValueError, match=r"as many columns.*\(1, 2\) and \(1, 3\)"):
        match_features(np.ones((1, 2)), np.ones((1, 3)))


def test_in_mixed_units_a_raw_cosine_calls_different_features_the_same():
    # Every feature moves the first column, in its hundreds; what tells them apart is in the others.
    rng = np.random.default_rng(0)
    noise = np.array([100.0, *np.full(6, 0.1)])
    patterns = np.column_stack([np.full(4, 200.0), np.eye(4, 6)])
    one, other = patterns[:2], patterns[2:]
    assert (match_features(one, other)[1] > 0.999).all()
    assert (match_features(one, other, noise_std=noise)[1] < CAME_BACK).all()
    np.testing.assert_allclose(match_features(one, one[::-1], noise_std=noise)[1], 1.0)
    codes = rng.random((300, 4)) < 0.4
    assert (match_codes(codes[:, :2], codes[:, 2:])[1] < IN_PART).all()


def test_one_level_for_all_columns_changes_nothing_and_others_are_units():
    rng = np.random.default_rng(1)
    components, others, unit = rng.random((4, 6)), rng.random((5, 6)), 10.0 ** np.arange(6)
    index, similarity = match_features(components, others)
    for same in (
        match_features(components, others, noise_std=3.0),
        match_features(components * unit, others * unit, noise_std=2.0 * unit),
    ):
        np.testing.assert_array_equal(same[0], index)
        np.testing.assert_allclose(same[1], similarity)


@pytest.mark.parametrize(
    ("noise", "words"),
    [(np.ones(2), r"each of the 3 columns.*\(2,\)"), ([1, 1, 0], "positive"), (np.nan, "finite")],
)
def test_noise_that_makes_no_sense(noise, words):
    with pytest.raises(ValueError, match=words):
        match_features(np.ones((1, 3)), np.ones((1, 3)), noise_std=noise)


@given(bits)
def test_codes_are_paired_by_the_best_of_all_pairings(pair):
    codes, others = pair
    index, similarity = match_codes(codes, others)
    paired = index >= 0
    assert paired.sum() == len(set(index[paired])) == min(codes.shape[1], others.shape[1])
    for k in np.flatnonzero(paired):
        expected = max(correlation(codes[:, k], others[:, index[k]]), 0.0)
        assert similarity[k] == pytest.approx(expected, abs=1e-9)
    few, many = sorted((codes.T, others.T), key=len)
    best = max(
        sum(max(correlation(few[i], many[j]), 0.0) for i, j in enumerate(chosen))
        for chosen in permutations(range(len(many)), len(few))
    )
    assert similarity.sum() == pytest.approx(best, abs=1e-9)


@pytest.fixture(params=["bits", "probabilities", "amounts"])
def some_codes(request):
    rng = np.random.default_rng(2)
    made = {
        "bits": (rng.random((90, 5)) < 0.3).astype(np.uint8),
        "probabilities": rng.beta(0.3, 0.5, size=(90, 5)),
        "amounts": 1e-50 * rng.gamma(1.0, size=(90, 5)),
    }
    return made[request.param]


def test_codes_agree_with_themselves_whatever_the_order(some_codes):
    rng = np.random.default_rng(3)
    order, rows = rng.permutation(5), rng.permutation(90)
    index, similarity = match_codes(some_codes, some_codes[:, order])
    np.testing.assert_array_equal(order[index], np.arange(5))
    np.testing.assert_allclose(similarity, 1.0)
    others = np.roll(some_codes, 7, axis=0)
    here = match_codes(some_codes, others)
    there = match_codes(some_codes[rows], others[rows])
    np.testing.assert_array_equal(here[0], there[0])
    np.testing.assert_allclose(here[1], there[1], atol=1e-9)
    assert (here[1] < IN_PART).all()
    # If the rows of one alone change places, nothing agrees any more.
    assert (match_codes(some_codes, some_codes[rows])[1] < IN_PART).all()


def test_blocks_of_rows_and_little_room_make_no_difference(some_codes, monkeypatch):
    others = some_codes.copy()
    others[:20] = others[20:40]
    index, similarity = match_codes(some_codes, others)
    assert (similarity < 0.95).all() and (similarity > 0.3).all()
    packed = match_codes(CompactCodes(some_codes), CompactCodes(others))
    monkeypatch.setattr(agreement_module, "BLOCK_NUMBERS", 35)
    blocks = match_codes(some_codes, others)
    for same in (packed, blocks):
        np.testing.assert_array_equal(same[0], index)
        np.testing.assert_allclose(same[1], similarity, atol=1e-5)


def test_the_opposite_is_the_same_only_if_flips_are():
    codes = (np.random.default_rng(4).random((80, 1)) < 0.3).astype(np.uint8)
    assert match_codes(codes, 1 - codes)[1] == 0.0
    np.testing.assert_allclose(match_codes(codes, 1 - codes, flips=True)[1], 1.0)


@pytest.mark.parametrize("value", [0, 1, 0.1, 1 / 3])
def test_what_does_not_vary_agrees_with_nothing(value):
    codes = np.full((70, 2), value)
    codes[:, 1] += np.arange(70) % 2
    assert match_codes(codes, codes)[1][0] == 0.0
    assert match_codes(codes[:, :1], codes[:, 1:], flips=True)[1] == 0.0


def test_codes_of_no_rows_no_features_and_other_rows():
    index, similarity = match_codes(np.zeros((4, 2)), np.zeros((4, 0)))
    assert index.tolist() == [-1, -1] and similarity.tolist() == [0, 0]
    assert match_codes(np.zeros((0, 2)), np.zeros((0, 1)))[1].tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"as many rows.*\(4, 2\) and \(5, 2\)"):
        match_codes(np.zeros((4, 2)), np.zeros((5, 2)))
    with pytest.raises(ValueError, match="finite"):
        match_codes(np.array([[0.0], [np.nan]]), np.eye(2))


def test_of_bits_every_row_is_kept_and_of_other_codes_an_even_sample(monkeypatch):
    monkeypatch.setattr(CompactCodes, "MOST_ROWS", 11)
    rng = np.random.default_rng(5)
    on = rng.random((101, 9)) < 0.5
    kept = CompactCodes(on.astype(np.uint8))
    assert kept.packed.nbytes == 101 * 2
    np.testing.assert_array_equal(kept[slice(20, 90)], on[20:90])
    soft = rng.random((101, 9))
    sample = CompactCodes(soft)
    assert sample.shape == (11, 9)
    np.testing.assert_allclose(sample[slice(None)], soft[::10] / soft[::10].max(axis=0), rtol=1e-6)


def test_what_counts_as_back_does_not_hang_on_the_number_of_restarts():
    back, part, lost = (CAME_BACK + 1) / 2, (CAME_BACK + IN_PART) / 2, IN_PART / 2
    similarity = np.array([
        [back, back, back, part, lost],
        [back, back, part, part, lost],
        [back, lost, part, lost, back],
    ])  # fmt: skip

    def agreement(rows):
        n = len(rows) + 1
        return RestartAgreement(np.zeros(n), np.full(n, 5), 0, similarity[rows])

    found = agreement([0, 1, 2])
    assert found.times_back.tolist() == [3, 2, 1, 0, 1]
    assert found.came_back.tolist() == [True, True, False, False, False]
    assert found.in_part.tolist() == [False, False, True, True, False]
    assert found.lost.tolist() == [False, False, False, False, True]
    twice = agreement([0, 0, 1, 1, 2, 2])
    for name in ("came_back", "in_part", "lost"):
        np.testing.assert_array_equal(getattr(twice, name), getattr(found, name))
    assert agreement([0, 2]).came_back.tolist() == [True, False, False, False, False]  # of two both
    assert not agreement([]).came_back.any() and not agreement([]).lost.any()


def test_the_spread_of_restarts_is_told_in_nats_and_as_a_share_of_the_gain():
    similarity = np.ones((2, 3))
    evidence, n_components = np.array([-120.0, -100.0, -110.0]), np.array([2, 3, 5])
    found = RestartAgreement(evidence, n_components, 1, similarity)
    assert found.fewest_and_most == (2, 5)
    assert found.evidence_spread == 20.0 and found.spread_of_gain is None
    assert RestartAgreement(evidence, n_components, 1, similarity, -300.0).spread_of_gain == 0.1
    for baseline in (-100.0, -50.0, np.nan, -np.inf):  # nothing is gained, or nothing is known
        unknown = RestartAgreement(evidence, n_components, 1, similarity, baseline)
        assert unknown.spread_of_gain is None
    odd = np.array([-np.inf, -np.inf, -np.inf])
    assert RestartAgreement(odd, n_components, 1, similarity, -300.0).evidence_spread is None


@pytest.fixture(scope="module")
def data():
    return make_block_images(150, noise_std=0.1, random_state=0).data


def test_a_fit_keeps_what_its_restarts_found(data):
    last = {}

    def look(progress):
        last[progress.restart] = (progress.evidence, progress.fitted_model()._training_codes())

    # Without moves, by which the kept one would take over what others found when they have ended.
    settings = {"n_init": 4, "init": "random", "moves": False, "random_state": 0}
    model = MEIBP(8, **settings, callbacks=look).fit(data)
    evidence, codes = zip(*last.values(), strict=True)
    np.testing.assert_allclose(model.restart_evidence_, evidence)
    kept = model.restart_kept_
    assert kept == np.argmax(evidence)
    np.testing.assert_array_equal(model.assignments_, codes[kept])
    assert model.restart_n_components_.tolist() == [found.shape[1] for found in codes]
    for restart, found in enumerate(codes):
        expected = match_codes(model.assignments_, found)[1]
        np.testing.assert_allclose(model.restart_similarity_[restart], expected, atol=1e-6)
    assert (model.restart_similarity_[kept] == 1.0).all()
    agreement = restarts_of(model)
    np.testing.assert_allclose(agreement.evidence_spread, max(evidence) - min(evidence))
    assert agreement.similarity.shape == (3, model.n_components_)


def test_restarts_of_mixed_units_are_told_apart_by_their_codes(data):
    # In units of their own, one column's numbers rule every cosine of two patterns.
    X = np.column_stack([1000.0 * data.sum(axis=1), data])
    last = {}

    def look(progress):
        last[progress.restart] = progress.fitted_model().components_

    settings = {"n_init": 4, "init": "random", "moves": False, "random_state": 0}
    model = MEIBP(3, **settings, callbacks=look).fit(X)
    cosines = np.array([match_features(model.components_, found)[1] for found in last.values()])
    others = restarts_of(model).similarity
    assert (np.delete(cosines, model.restart_kept_, axis=0) > 0.99).all()
    assert others.min() < IN_PART


@pytest.mark.parametrize("scale", [1.0, 1e-60])
def test_restarts_of_real_codes_are_compared_too(data, scale):
    X = data - data.min()
    settings = {"code_rate": 1.0 / scale, "n_init": 2, "random_state": 0, "max_iter": 100}
    model = BNMF(4, **settings).fit(X)
    others = restarts_of(model).similarity
    assert others.shape == (1, model.n_components_)
    assert (others > 0.5).all()


def test_the_true_features_come_back_in_every_restart(data):
    model = MEIBP(n_init=3, random_state=0).fit(data)
    assert model.n_components_ == 4
    assert (model.restart_similarity_ > 0.99).all()


def test_a_single_start_agrees_with_itself(data):
    model = MEIBP(random_state=0).fit(data)
    assert model.restart_kept_ == 0
    assert (model.restart_similarity_ == np.ones((1, model.n_components_))).all()
    assert model.restart_evidence_ == pytest.approx([model.evidence_])


@pytest.mark.parametrize(
    ("make", "settings", "flips"),
    [
        (InfiniteVIBP, {}, True),
        (InfiniteVIBP, {"fit_intercept": False}, False),
        (MEIBP, {"moves": False}, False),  # patterns are never negative
    ],
)
def test_a_flipped_feature_is_the_same_where_an_intercept_can_make_up_for_it(
    data, monkeypatch, make, settings, flips
):
    asked = []

    def opposite(codes, others, **options):
        asked.append(options["flips"])
        return match_codes(codes[slice(None)], 1.0 - codes[slice(None)], **options)

    monkeypatch.setattr(observing, "match_codes", opposite)
    model = make(3, n_init=2, random_state=1, **settings).fit(data)
    assert asked == [flips]
    assert ((restarts_of(model).similarity > 0.99) == flips).all()


def test_a_restart_that_did_not_run_is_not_there(data):
    model = MEIBP(n_init=5, random_state=0, callbacks=lambda progress: True).fit(data)
    assert model.restart_evidence_.shape == (1,)
    assert model.ending_ == "callback"


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_restarts_are_matched_whatever_the_unit(data, scale):
    model = MEIBP(4, n_init=2, random_state=0).fit(data * scale)
    assert (model.restart_similarity_ > 0.99).all()


def test_a_restart_that_was_cut_short_is_not_there_unless_it_is_the_best(data):
    settings = {"n_init": 3, "init": "random", "random_state": 0}
    model = MEIBP(4, **settings, callbacks=lambda progress: progress.restart == 2).fit(data)
    assert model.restart_evidence_.tolist() == [model.evidence_]
    assert model.ending_ == "converged"

    def early(progress):
        return progress.restart == 2 and progress.iteration == 3

    better = MEIBP(4, **settings, max_iter=3, tol=0, callbacks=early)
    better.fit(data)
    kept = better.restart_kept_
    assert better.restart_evidence_[kept] == max(better.restart_evidence_)
    assert len(better.restart_evidence_) == (2 if kept == 1 else 1)


def test_files_hold_restarts_and_notes(data, tmp_path):
    model = MEIBP(8, n_init=3, init="random", random_state=0).fit(data)
    model.notes_ = {"data": "blocks", "image_shape": [6, 6]}
    model.save(tmp_path / "model.ibp")
    again = ibp.load(tmp_path / "model.ibp")
    assert again.notes_ == model.notes_
    assert again.ending_ == model.ending_
    assert again.restart_kept_ == model.restart_kept_
    for name in ("restart_evidence_", "restart_n_components_", "restart_similarity_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))


def test_patterns_are_compared_in_units_of_the_noise_where_columns_have_their_own():
    components = np.array([[1.0, 400.0], [3.0, 200.0]])
    own = SimpleNamespace(components_=components, noise_std_=np.array([0.1, 100.0]))
    np.testing.assert_allclose(patterns_in_noise(own), [[10.0, 4.0], [30.0, 2.0]])
    shared = SimpleNamespace(components_=components, noise_std_=0.1)
    np.testing.assert_array_equal(patterns_in_noise(shared), components)
