"""
How sure can one be?
====================

A fit always returns an answer. Three questions tell how far to trust it: do other starts find the
same features, does a different number of features predict better, and how much would each single
assignment cost if it were the other way round? Here the truth is known, so the answers can be
checked. The noise was chosen so that all three have something to say: in heavier noise the held-out
score hardly tells numbers apart.
"""

import warnings
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from ibp import MEIBP
from ibp.agreement import match_codes
from ibp.datasets import make_binary_factors
from ibp.evaluate import held_out_block

X, Z, A = make_binary_factors(300, 40, 8, probability=0.3, noise_std=0.9, random_state=1)
INK, ROSE = "#332288", "#CC6677"

# %%
# Do other starts agree?
# ----------------------
# Six random starts, with room for twelve features: first without moves, which can only drop
# features, then with moves, the default, which also add, merge and split them.
# ``restart_similarity_`` has a line per start and a column per feature of the start that was kept,
# the one of highest evidence: how alike the feature is to its partner there, by the correlation of
# their codes. Features that come back each time are in the data; those that do not may be the
# start's.

unmoved = MEIBP(12, init="random", n_init=6, moves=False, random_state=0).fit(X)
print("features of each start without moves:", unmoved.restart_n_components_)
model = MEIBP(12, init="random", n_init=6, random_state=0).fit(X)
similarity = model.restart_similarity_
_, likeness = match_codes(model.assignments_, Z)
order = np.argsort(-similarity.mean(axis=0))
print("features of each start:", model.restart_n_components_)

figure, axes = plt.subplots(
    2, 1, figsize=(6.5, 3.8), sharex=True, height_ratios=(6, 1.2), layout="constrained"
)
picture = axes[0].imshow(similarity[:, order], cmap="Purples", vmin=0, vmax=1, aspect="auto")
axes[0].set_yticks(
    range(len(similarity)),
    [f"start {r}" + (" (kept)" if r == model.restart_kept_ else "") for r in range(6)],
)
axes[1].imshow(likeness[None, order], cmap="Purples", vmin=0, vmax=1, aspect="auto")
axes[1].set_yticks([0], ["the truth"])
axes[1].set_xticks(range(len(order)), order)
axes[1].set_xlabel("feature of the kept start")
bar = figure.colorbar(picture, ax=axes, label="correlation of codes")

# %%
# Eight features made these data. With moves every start has found them, as the last line shows;
# without, most have cut them into more, and the evidence has to tell which to believe. How far to
# believe it, the agreement of the starts tells: in noise like this the codes of the same feature
# are never quite the same.
#
# Does another number predict better?
# -----------------------------------
# Hide a part of the data, fit with different limits, and score the hidden entries. A line per
# choice of what is hidden gives an idea of how far differences are to be taken seriously; the
# strong line is their mean. It is highest at eight, and with more room somewhat lower. A fit at a
# limit that is too low warns of it; here we know.

warnings.filterwarnings("ignore", message="n_components=")
limits = [1, 2, 4, 6, 8, 10, 12, 16]
scores = np.empty((3, len(limits)))
for mask in range(3):
    X_seen = np.where(held_out_block(*X.shape, mask), np.nan, X)
    for i, limit in enumerate(limits):
        fitted = MEIBP(limit, random_state=0).fit(X_seen)
        scores[mask, i] = fitted.score_heldout(X_seen, X)

figure, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
ax.plot(limits, scores.T, color="0.8", linewidth=1)
ax.plot(limits, scores.mean(axis=0), "o-", color=INK)
ax.axvline(len(A), color="0.9", zorder=0)
ax.set_xlabel("features allowed")
ax.set_ylabel("held-out log-likelihood per entry")
ax.spines[["top", "right"]].set_visible(False)

# %%
# How sure is each assignment?
# ----------------------------
# ``confidence`` is what the row's objective would lose, in nats, if that one bit were flipped. We
# take eight features and look up whether each bit is right. The surer ones are right more often:
# it tells where to look first. It is no probability that the model can be held to, for it takes
# the features, and the row's other bits, as they were found. If all of these were known, a bit
# with a confidence of c would be right with a probability of 1 / (1 + exp(-c)), the dashed line.

model = MEIBP(8, random_state=0).fit(X)
match, _ = match_codes(model.assignments_, Z)
confidence, right = model.confidence(X), model.transform(X) == Z[:, match]
edges = np.array([0, 1, 2, 3, 4, 6, 8, 12])
middle = 0.5 * (edges[:-1] + edges[1:])
within = [(confidence >= low) & (confidence < high) for low, high in pairwise(edges)]

figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
axes[0].hist(confidence.ravel(), bins=np.arange(0, 30, 1.0), color=INK)
axes[0].set_xlabel("confidence (nats)")
axes[0].set_ylabel("assignments")
axes[1].plot(middle, [right[bits].mean() for bits in within], "o-", color=INK)
x = np.linspace(0, edges[-1], 100)
axes[1].plot(x, 1 / (1 + np.exp(-x)), "--", color=ROSE)
axes[1].set_xlabel("confidence (nats)")
axes[1].set_ylabel("part that is right")
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
print(f"{right.mean():.1%} of all assignments are right")
plt.show()
