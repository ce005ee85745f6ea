import threading

import numpy as np
from threadpoolctl import threadpool_info

from ibp.blas import reconstruct, single_threaded_blas


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_any_thread_can_set_the_limit():
    seen = []

    def user():
        with single_threaded_blas():
            seen.append(set(blas_threads()))

    user()
    for _ in range(2):
        thread = threading.Thread(target=user)
        thread.start()
        thread.join()
    user()
    assert seen == [{1}] * 4


def test_overlapping_users_share_one_limit_and_the_last_lifts_it():
    before = blas_threads()
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    seen = {}

    def first():
        with single_threaded_blas():
            first_in.set()
            second_in.wait(30)
        first_out.set()

    def second():
        first_in.wait(30)
        with single_threaded_blas():
            second_in.set()
            first_out.wait(30)
            seen["after the first has left"] = blas_threads()

    threads = [threading.Thread(target=target) for target in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen["after the first has left"]) == {1}
    assert blas_threads() == before


def test_the_limit_is_lifted_after_an_error():
    before = blas_threads()
    try:
        with single_threaded_blas():
            raise RuntimeError
    except RuntimeError:
        pass
    assert blas_threads() == before


def test_reconstruction_is_a_product():
    codes = np.array([[1, 0, 1], [0, 0, 0]], dtype=np.uint8)
    components = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(reconstruct(codes, components), [[4.0, 6.0], [0.0, 0.0]])
