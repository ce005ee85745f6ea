"""
Notes in a recording
====================

A note is on or off, and what it adds to a spectrum is not negative: that is what a binary feature
with a nonnegative factor can be. We make a recording of chords, forget the score, and ask for it
back.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from ibp import MEIBP, plots
from ibp.agreement import match_features

# %%
# A recording
# -----------
# Six notes with five harmonics each. Every quarter of a second each of them is played or not, with
# random phases, amid loud hiss.

rng = np.random.default_rng(0)
rate, length, n_steps = 8000, 2000, 400  # samples a second, samples a step, steps
pitches = {"A3": 220.0, "C4": 261.6, "D4": 293.7, "E4": 329.6, "G4": 392.0, "B4": 493.9}
score = rng.random((n_steps, len(pitches))) < 0.35
time = np.arange(length) / rate
sound = rng.normal(0.0, 1.0, (n_steps, length))
for played, pitch in zip(score.T, pitches.values(), strict=True):
    for harmonic in range(1, 6):
        phase = rng.uniform(0.0, 2 * np.pi, (n_steps, 1))
        wave = 0.7**harmonic * np.sin(2 * np.pi * harmonic * pitch * time + phase)
        sound += played[:, None] * 1.4 * wave

# %%
# Spectra
# -------
# A row is the magnitude of the Fourier transform of one step, a column is a frequency.

frequencies = np.fft.rfftfreq(length, 1 / rate)
audible = frequencies < 2000
X = np.abs(np.fft.rfft(sound * np.hanning(length), axis=1))[:, audible] * 4 / length
frequencies = frequencies[audible]
print(f"{X.shape[0]} spectra of {X.shape[1]} frequencies")

# %%
# How many notes?
# ---------------
# Fits with different limits. The evidence shoots up until there are six features; with room for
# more hardly anything is gained. Magnitudes of waves do not quite add up where harmonics of two
# notes fall together, and a feature or two mend that. With real recordings it is the same: look for
# the bend, not for the summit. A fit that ends at its limit warns of it, and ``limit_gain_`` says
# what one more feature would gain: thousands of nats below six, a few hundred there.

warnings.filterwarnings("ignore", message="n_components=")  # which we know, and look at below
limits = [2, 3, 4, 5, 6, 7, 8, 10, 12]
models = [MEIBP(limit, random_state=0).fit(X) for limit in limits]
for fitted in models:
    gain = "" if fitted.limit_gain_ is None else f", one more would gain {fitted.limit_gain_:.0f}"
    print(f"at most {fitted.n_components}: {fitted.n_components_} features{gain}")
figure, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
ax.plot(limits, [model.evidence_ for model in models], "o-", color="#332288")
ax.axvline(len(pitches), color="0.8", zorder=0)
ax.set_xlabel("features allowed")
ax.set_ylabel("evidence (nats)")
ax.spines[["top", "right"]].set_visible(False)
model = models[limits.index(6)]

# %%
# The features are notes
# ----------------------
# Each feature is matched with the note whose own spectrum it resembles most. Ticks mark where that
# note's harmonics are.

alone = np.array([X[score[:, k] & (score.sum(axis=1) == 1)].mean(axis=0) for k in range(6)])
found, likeness = match_features(alone - X.min(axis=0), model.components_)
figure, axes = plt.subplots(6, 1, figsize=(7, 5), sharex=True, sharey=True, layout="constrained")
axes[-1].set_xlabel("frequency (hertz)")
for ax, (name, pitch), k in zip(axes, pitches.items(), found, strict=True):
    ax.fill_between(frequencies, model.components_[k], color="#332288", linewidth=0)
    ax.vlines(pitch * np.arange(1, 6), -0.12, -0.02, color="#CC6677", linewidth=2)
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
    ax.set_yticks([])
    ax.set_xlim(0, 2000)
    ax.spines[["top", "right", "left"]].set_visible(False)

# %%
# The score, played and found
# ---------------------------

heard = model.assignments_[:, found].astype(bool)
print(f"{(heard == score).mean():.1%} of the score is right")
figure, axes = plt.subplots(2, 1, figsize=(8, 3), sharex=True, layout="constrained")
axes[-1].set_xlabel("seconds")
for ax, title, notes in zip(axes, ("played", "found"), (score, heard), strict=True):
    ax.imshow(notes[:80].T, cmap="Greys", aspect="auto", extent=(0, 20, 5.5, -0.5))
    ax.set_yticks(range(6), pitches)
    ax.set_title(title, loc="left", fontsize=10)

# %%
# One chord
# ---------
# Columns without a picture's shape go along an axis, and features are stacked on the offset, which
# is the hiss. Dots are what was observed.

chord = int(np.flatnonzero(score.sum(axis=1) == 3)[0])
axes = plots.reconstruction(model, X, chord)
axes.set_xlim(40, 300)
plt.show()
