"""Features of two fits are paired as well as they can be; restarts are kept and compared."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import ibp
from ibp import MEIBP, InfiniteVIBP
from ibp.agreement import match_features
from ibp.datasets import make_block_images

matrices = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.just(3)),
    elements=st.floats(-5, 5, allow_subnormal=False),
)


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


@pytest.fixture(scope="module")
def data():
    return make_block_images(150, noise_std=0.1, random_state=0).data


def test_a_fit_keeps_what_its_restarts_found(data):
    last = {}

    def look(progress):
        last[progress.restart] = (progress.evidence, progress.fitted_model().components_)

    model = MEIBP(8, n_init=4, init="random", random_state=0, callbacks=look).fit(data)
    evidence, components = zip(*last.values(), strict=True)
    np.testing.assert_allclose(model.restart_evidence_, evidence)
    kept = model.restart_kept_
    assert kept == np.argmax(evidence)
    np.testing.assert_array_equal(model.components_, components[kept])
    assert model.restart_n_components_.tolist() == [len(found) for found in components]
    for restart, found in enumerate(components):
        expected = match_features(model.components_, found)[1]
        np.testing.assert_allclose(model.restart_similarity_[restart], expected, atol=1e-6)
    assert (model.restart_similarity_[kept] == 1.0).all()


def test_the_true_features_come_back_in_every_restart(data):
    model = MEIBP(n_init=3, random_state=0).fit(data)
    assert model.n_components_ == 4
    assert (model.restart_similarity_ > 0.99).all()


def test_a_single_start_agrees_with_itself(data):
    model = MEIBP(random_state=0).fit(data)
    assert model.restart_kept_ == 0
    assert (model.restart_similarity_ == np.ones((1, model.n_components_))).all()
    assert model.restart_evidence_ == pytest.approx([model.evidence_])


def test_a_flipped_feature_is_the_same_where_there_is_an_intercept(data):
    model = InfiniteVIBP(6, n_init=3, random_state=1).fit(data)
    assert (model.restart_similarity_ >= 0).all()


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
