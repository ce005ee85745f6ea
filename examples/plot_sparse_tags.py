"""
Topics behind tags
==================

A row is a photograph, a column is a tag, an entry says whether the photograph has it. Hardly any
has: such a matrix is kept sparse, and the fit leaves it so. Behind the tags are topics, and one
photograph can have several.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from ibp import MEIBP, plots
from ibp.agreement import match_features

# %%
# Tags
# ----
# Five topics, each with tags that go with it more or less often. Some tags belong to two topics,
# and a hundred others come at random.

TOPICS = {
    "beach": {"sea": 0.9, "sand": 0.8, "sun": 0.7, "waves": 0.6, "summer": 0.5, "blue": 0.4},
    "mountain": {"peak": 0.8, "snow": 0.7, "hiking": 0.7, "rocks": 0.5, "sky": 0.5, "blue": 0.4},
    "city": {"street": 0.9, "people": 0.7, "night": 0.6, "lights": 0.6, "cars": 0.5},
    "food": {"dinner": 0.8, "plate": 0.7, "restaurant": 0.6, "red wine": 0.4, "friends": 0.4},
    "party": {"friends": 0.9, "music": 0.8, "dancing": 0.7, "night": 0.6, "lights": 0.4},
}
rng = np.random.default_rng(0)
tags = sorted({tag for topic in TOPICS.values() for tag in topic})
tags += [f"tag {i}" for i in range(100)]
chances = np.array([[topic.get(tag, 0.0) for tag in tags] for topic in TOPICS.values()])
has_topic = rng.random((1000, len(TOPICS))) < 0.2
absent = np.prod(1.0 - has_topic[:, :, None] * chances, axis=1) * (1.0 - 0.005)
X = sparse.csr_array((rng.random(absent.shape) > absent).astype(float))
print(f"{X.shape[0]} photographs, {X.shape[1]} tags, {X.nnz / np.prod(X.shape):.1%} of entries set")

# %%
# How many topics?
# ----------------
# A feature for every tag would explain all and say nothing. It does not pay: a tag is recorded as
# zero or one, and the model takes that resolution for what it is, so that a column is worth no more
# than what it tells. So the evidence can be asked for the number of topics. To see whether it is
# right, hide some entries and ask how well they are predicted. Entries that are not stored are
# zeros; a stored NaN is missing. A fit at a limit that is too low warns of it; here that is what we
# want to see.

warnings.filterwarnings("ignore", message="n_components=")
places = rng.choice(np.prod(X.shape), np.prod(X.shape) // 20, replace=False)
seen = X.toarray()
seen.ravel()[places] = np.nan
X_seen = sparse.csr_array(seen)

limits = [2, 3, 4, 5, 6, 7, 8, 10]
held_out, evidence = [], []
for limit in limits:
    model = MEIBP(limit, random_state=0).fit(X_seen)
    held_out.append(model.score_heldout(X_seen, X))
    evidence.append(model.evidence_)

figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.8), layout="constrained")
curves = {"held-out log-likelihood per entry": held_out, "evidence (nats)": evidence}
for ax, (label, values) in zip(axes, curves.items(), strict=True):
    ax.plot(limits, values, "o-", color="#332288")
    ax.axvline(len(TOPICS), color="0.8", zorder=0)
    ax.set_xlabel("features allowed")
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)

# %%
# The topics
# ----------
# Both rise up to five features, and more are not taken. Here they are, fitted to all that there is:
# the names of the columns where a feature is largest. The label of each is its number and the part
# of the photographs that have it.

model = MEIBP(random_state=0).fit(X)
axes = plots.features(model, feature_names=tags)

# %%
# Are they right?
# ---------------
# Tags of two topics are in both, and the shape of a feature tells how often a tag goes with it.

match, likeness = match_features(chances, model.components_)
for topic, k, cosine in zip(TOPICS, match, likeness, strict=True):
    agreement = (model.assignments_[:, k] == has_topic[:, list(TOPICS).index(topic)]).mean()
    print(f"{topic:>8}: feature {k}, cosine {cosine:.2f}, {agreement:.1%} of photographs right")

# %%
# Which photographs have which
# ----------------------------
# Dark where a photograph has a topic. A third of them has none, and some have three.

axes = plots.assignments(model)
plt.show()
