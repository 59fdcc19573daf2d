"""A CUDA replay sees only its GPU, where that can be told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kerncap_stages.replay.one_gpu import VARIABLE, choose_only_gpu


def make_capture(index=0, backend="cuda", regions=(None,), variables=(), code=()):
    def on(devices):
        return [SimpleNamespace(device_index=each) for each in devices]

    return SimpleNamespace(
        environment=SimpleNamespace(backend=backend),
        dispatch=SimpleNamespace(device_index=index),
        regions=on(regions),
        module_variables=on(variables),
        loaded_code_objects=on(code),
    )


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Describes GPUs of these models as the driver does, and returns the root of the file system."""
    monkeypatch.delenv(VARIABLE, raising=False)

    def describe(*models, uuid="GPU-{}"):
        for number, model in enumerate(models):
            folder = tmp_path / f"proc/driver/nvidia/gpus/0000:{number:02x}:00.0"
            folder.mkdir(parents=True)
            name = uuid.format(number)
            (folder / "information").write_text(
                f"Model: \t\t {model}\nIRQ:   \t\t 47\nGPU UUID: \t {name}\nBus Type: \t PCIe\n"
                f"Device Minor: \t {number}\n"
            )
            (tmp_path / "dev").mkdir(exist_ok=True)
            (tmp_path / f"dev/nvidia{number}").touch()
        return tmp_path

    return describe


def test_of_equal_gpus_the_one_of_that_number_is_seen(driver):
    folder = driver("H200", "H200", "H200")
    assert [choose_only_gpu(make_capture(index), folder) for index in range(4)] == [
        "GPU-0",
        "GPU-1",
        "GPU-2",
        None,
    ]


def test_gpus_that_a_container_may_not_open_do_not_count(driver):
    root = driver("H200", "H200", "H200")
    (root / "dev/nvidia0").unlink()
    assert [choose_only_gpu(make_capture(index), root) for index in range(3)] == ["GPU-1", "GPU-2", None]


def test_nothing_is_hidden_where_there_is_one(driver):
    assert choose_only_gpu(make_capture(), driver("H200")) is None


def test_cuda_puts_the_fastest_first_so_unlike_gpus_are_all_seen(driver):
    assert choose_only_gpu(make_capture(), driver("H200", "T4")) is None


def test_a_gpu_without_a_name_is_not_guessed(driver):
    assert choose_only_gpu(make_capture(), driver("H200", "H200", uuid="GPU-????????")) is None


def test_parts_of_a_gpu_have_numbers_of_their_own(driver):
    folder = driver("H100", "H100")
    (folder / "proc/driver/nvidia/capabilities/gpu0/mig/gi3").mkdir(parents=True)
    assert choose_only_gpu(make_capture(), folder) is None


def test_what_the_user_chose_is_narrowed_and_never_widened(driver, monkeypatch):
    folder = driver("H200", "H200", "H200")
    monkeypatch.setenv(VARIABLE, "2, MIG-ab")
    assert [choose_only_gpu(make_capture(index), folder) for index in range(3)] == ["2", "MIG-ab", None]
    for chosen in ("2", "", "2,,1"):
        monkeypatch.setenv(VARIABLE, chosen)
        assert choose_only_gpu(make_capture(), folder) is None


@pytest.mark.parametrize("what", ["regions", "variables", "code"])
def test_memory_of_another_gpu_needs_that_one_too(driver, what):
    folder = driver("H200", "H200")
    assert choose_only_gpu(make_capture(**{what: (0, 1)}), folder) is None
    assert choose_only_gpu(make_capture(**{what: (0, None)}), folder) == "GPU-0"


def test_other_back_ends_are_left_alone(driver):
    assert choose_only_gpu(make_capture(backend="hsa"), driver("H200", "H200")) is None
