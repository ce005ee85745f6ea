from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import ibp


def run_python(code, **environment):
    """Output of a fresh interpreter."""
    finished = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.split()


LOADED = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def test_importing_the_package_is_cheap():
    loaded = set(run_python(f"import ibp; {LOADED}"))
    assert "ibp" in loaded
    assert not loaded & {"numpy", "numba", "sklearn", "scipy", "matplotlib", "dask", "pandas"}


def test_importing_the_estimator_compiles_nothing():
    loaded = set(run_python(f"from ibp import MEIBP; MEIBP().get_params(); {LOADED}"))
    assert "sklearn" in loaded
    assert not loaded & {"numba", "matplotlib", "dask", "polars"}


def test_what_a_command_reads_of_pages_makes_none():
    code = "import ibp.report.codes, ibp.report.trust; from ibp import report; "
    loaded = set(run_python(code + "import sys; print(*sys.modules)"))
    assert "ibp.report.codes" in loaded
    assert not loaded & {"ibp.report.page", "ibp.report.content", "jinja2"}
    names = run_python(
        code + "print(*report.__all__, report.write_report.__module__, *dir(report))"
    )
    assert names[:3] == ["write_comparison", "write_report", "ibp.report.page"]
    assert {"write_comparison", "write_report"} <= set(names[3:])
    with pytest.raises(AttributeError, match="'ibp.report' has no attribute 'write'"):
        ibp.report.write


STARTUP = """
import gc, sys
from ibp.cli.startup import begin_to_load, end_of_loading
begin_to_load()
print(gc.isenabled())
import sklearn.base, ibp.agreement
print("scipy.stats._stats_py" in sys.modules or "scipy.optimize" in sys.modules)
early = sys.modules["scipy.stats"]
from scipy import stats
from scipy.stats import norm
print(stats.norm is norm, early.norm is norm, float(norm.cdf(0.0)), stats is early)
import scipy.stats.distributions
print(sys.modules["scipy.stats"] is early, scipy.stats.distributions.norm is norm)
end_of_loading()
print(gc.isenabled(), gc.get_freeze_count() > 100_000)
"""


def test_commands_put_off_what_no_fit_calls():
    said = run_python(STARTUP)
    assert said[:2] == ["False", "False"]
    assert said[2:8] == ["True", "True", "0.5", "True", "False", "True"]
    assert said[8:] == ["True", "True"]


def test_a_process_that_is_not_ours_is_left_alone():
    import gc

    from ibp.cli.startup import end_of_loading

    before = gc.get_freeze_count()
    end_of_loading()
    assert gc.get_freeze_count() == before
    assert gc.isenabled()


def test_star_import_works():
    names = run_python("from ibp import *; print(MEIBP.__name__, load.__name__, model.__name__)")
    assert names == ["MEIBP", "load", "ibp.model"]


def test_dir_lists_the_public_names():
    assert dir(ibp) == sorted(ibp.__all__)
    assert {"MEIBP", "load", "__version__", "datasets", "evaluate"} <= set(dir(ibp))
    for name in dir(ibp):
        assert getattr(ibp, name) is getattr(ibp, name)


def test_unknown_names():
    with pytest.raises(AttributeError, match="module 'ibp' has no attribute 'MEIBPP'"):
        ibp.MEIBPP
    assert not hasattr(ibp, "_anything")
    with pytest.raises(ImportError, match="MEIBPP"):
        from ibp import MEIBPP  # noqa: F401


def test_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert version("ibp") == ibp.__version__


FIT = """
import hashlib
import numpy as np
from ibp import MEIBP

# Data made without matrix products, so that they are the same whatever the threads.
rng = np.random.default_rng(0)
assignments = rng.random((2500, 8)) < 0.4
factors = rng.uniform(0.5, 2.0, size=(8, 40))
data = rng.normal(0.0, 0.2, size=(2500, 40)) + 1.0
for k in range(8):
    data += assignments[:, k : k + 1] * factors[k]
data = np.abs(data)
holed = data.copy()
holed[1250:, :8] = np.nan
holed[rng.random(holed.shape) < 0.001] = np.nan

def digest(*arrays):
    return hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in arrays)).hexdigest()[:16]

settings = {"noise_std": 0.3, "max_iter": 2, "tol": 0, "random_state": 0, "n_jobs": JOBS}
for x in (data, holed):
    model = MEIBP(12, learn_hyperparameters=True, **settings).fit(x)
    print(
        digest(model.components_, model.components_std_, model.factor_location_),
        digest(model.assignments_, model.history_["evidence"], model.evidence_),
        digest(model.noise_std_, model.factor_std_, model.alpha_),
        digest(model.transform(x), model.confidence(x)),
        digest(model.score_samples(x), model.score(x)),
        digest(model.impute(holed)),
        digest(model.inverse_transform(model.assignments_)),
        digest(*model.sample(2500, random_state=0)),
    )
"""


@pytest.fixture(scope="module")
def digests():
    """Digests of all results, by the number of threads, as an array (threads, data, result)."""

    def fit_with(threads):
        names = ("OPENBLAS", "OMP", "MKL", "NUMBA")
        environment = {f"{name}_NUM_THREADS": str(threads) for name in names}
        return run_python(FIT.replace("JOBS", str(threads)), **environment)

    return np.array([fit_with(1), fit_with(2)]).reshape(2, 2, 8)


def test_fits_do_not_depend_on_threads(digests):
    one, two = digests[:, :, :4].tolist()
    assert one == two


def test_what_follows_from_fits_does_not_depend_on_threads(digests):
    one, two = digests[:, :, 4:].tolist()
    assert one == two
