"""The container files: their steps are carried out in a clean virtual environment, since no engine runs in tests."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution
from importlib.metadata import distribution as distribution_of
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from mbr.serve.client import Client, ServiceError
from mbr.serve.server import AFTER_ANSWERS
from mbr.serve.settings import Settings
from tests.conftest import ROOT
from tests.support.pages import blocks, page

pytestmark = pytest.mark.one_world

FILES = ("Dockerfile", "Dockerfile.cuda")
FOLDERS = ("/opt/mbr", "/wheels", "/src", "/home/mbr")


@dataclass(frozen=True)
class Step:
    """One instruction: its name in capitals, and what follows it on one line."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Of the exec form."""
        words: list[str] = json.loads(self.text[self.text.index("[") :])
        return words


def stages(file: str) -> list[list[Step]]:
    """The instructions of each stage; the first of each is its FROM."""
    text = re.sub(r"^#.*\n", "", page(file), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[list[Step]] = []
    for line in filter(str.strip, text.splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append(Step(name, " ".join(rest.split())))
    return found


def last(file: str, name: str) -> Step:
    return [step for step in stages(file)[-1] if step.name == name][-1]


def steps_of_ours(file: str) -> list[str]:
    """The steps that both files share: those of the packages, from the sources to the image."""
    steps = [
        step for stage in stages(file) for step in stage if step.name in ("COPY", "RUN", "ENV", "USER", "ENTRYPOINT")
    ]
    texts = [f"{step.name} {step.text}".replace("python3 ", "python ").replace(" --device cpu", "") for step in steps]
    return [text for text in texts if "apt-get" not in text and not text.endswith(" torch")]


def copied(words: list[str], context: Path, target: Path) -> None:
    """COPY, as far as .dockerignore lets files in."""
    rules = [line for line in page(".dockerignore").splitlines() if line and not line.startswith("#")]
    for name in words[:-1]:
        first = name.split("/")[0]
        assert f"!{first}" in rules, f".dockerignore keeps {name} out"
        assert fnmatch.fnmatch(first, rules[0])
        destination = target / name if words[-1] == "./" else target / words[-1]
        destination.parent.mkdir(parents=True, exist_ok=True)
        if (context / name).is_dir():
            shutil.copytree(context / name, destination, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(context / name, destination)


def carried_out(command: str, root: Path, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """RUN below another root and without a network: dependencies are those of this environment."""
    for name in FOLDERS:
        command = re.sub(rf"(?<![\w/]){name}(?![\w-])", str(root) + name, command)
    command = command.replace("pip wheel", "pip wheel --no-build-isolation --no-index")
    command = command.replace("pip install", "pip install --no-deps --no-index --ignore-installed")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PATH": f"{path}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1", "HOME": str(folder)}
    return subprocess.run(
        ["/bin/sh", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def extras_of(step: str) -> set[str]:
    """The extras with which a step installs the wheel."""
    (names,) = re.findall(r'"\$\{wheel\}\[([\w,-]+)\]"', step)
    return set(names.split(","))


def dependencies(distribution: Distribution, extras: set[str]) -> dict[str, Distribution]:
    """What pip installs with a distribution, by name; each must be here in a version that fits."""
    installed: dict[str, Distribution] = {}
    waiting = [(distribution, extras)]
    while waiting:
        user, wanted = waiting.pop()
        for requirement in map(Requirement, user.requires or ()):
            if requirement.marker and not any(requirement.marker.evaluate({"extra": name}) for name in {"", *wanted}):
                continue
            needed = distribution_of(requirement.name)
            assert requirement.specifier.contains(needed.version, prereleases=True), f"{user.name} needs {requirement}"
            if needed.name not in installed:
                installed[needed.name] = needed
                waiting.append((needed, requirement.extras))
    return installed


def link_dependencies(packages: Path, extras: set[str]) -> None:
    """Put what the wheel needs beside it, and nothing else of this environment."""
    (own,) = packages.glob("mbr_decode-*.dist-info")
    for needed in dependencies(Distribution.at(own), extras).values():
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            target = packages / name
            if not target.exists():
                target.symlink_to(Path(str(needed.locate_file(name))))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the CPU image, as far as its steps need no engine; each step must succeed."""
    root = tmp_path_factory.mktemp("image")
    folder, path = root, Path(sys.executable).parent
    for stage in stages("Dockerfile"):
        for step in stage:
            if step.name == "WORKDIR":
                folder = root / step.text.lstrip("/")
                folder.mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY" and "--from" not in step.text:
                copied(step.text.split(), ROOT, folder)
            elif step.name == "ENV":
                assert "PATH=/opt/mbr/bin:$PATH" in step.text
                path = root / "opt/mbr/bin"
            elif step.name == "RUN" and not re.search(r" torch$|^useradd", step.text):
                done = carried_out(step.text, root, folder, str(path))
                assert done.returncode == 0, f"{step.text}\n{done.stderr}"
                (packages,) = (root / "opt/mbr/lib").glob("python*/site-packages")
                if "pip install" in step.text:  # from now on with what the wheel needs alone
                    (packages / "dependencies.pth").unlink()
                    link_dependencies(packages, extras_of(step.text))
                if "-m venv" in step.text:
                    for old in packages.glob("*setuptools*"):  # of Python 3.11; the image's has none
                        shutil.rmtree(old)
                    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
                if "mbr-decode" in step.text.split():
                    assert done.stdout == "Guten Tag!\n"
    return root


def test_the_steps_of_the_image_succeed_in_a_clean_environment(image: Path) -> None:
    """The wheel is built and installed, the models inside it translate, and nothing else of the clone is there."""
    (wheel,) = (image / "wheels").iterdir()
    assert wheel.name.startswith("mbr_decode-")
    assert list((image / "home/mbr").glob("check*")) == []
    program = "import mbr, candidates, pear; print(mbr.__file__, candidates.__file__, pear.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [image / "opt/mbr/bin/python", "-c", program]
    paths = subprocess.run(words, cwd=image, env=environment, capture_output=True, text=True, check=True)
    assert all(path.startswith(str(image / "opt/mbr/lib")) for path in paths.stdout.split())


def test_nothing_that_the_wheel_does_not_need_is_installed(image: Path) -> None:
    program = "import fastapi, uvicorn, torch\nimport pytest"
    words = [image / "opt/mbr/bin/python", "-I", "-c", program]
    done = subprocess.run(words, cwd=image, capture_output=True, text=True, check=False)
    assert "No module named 'pytest'" in done.stderr


def test_the_entry_point_serves_is_healthy_and_ends_in_time(image: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret\n")
    values = {"--host": "127.0.0.1", "--port": "0", "--api-key-file": str(tmp_path / "keys")}
    words = last("Dockerfile", "CMD").words
    for option, value in values.items():
        words[words.index(option) + 1] = value
    (entry,) = last("Dockerfile", "ENTRYPOINT").words
    environment = {"PATH": f"{image}/opt/mbr/bin:/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    environment |= dict(word.split("=", 1) for word in last("Dockerfile", "ENV").text.split() if "PATH" not in word)
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [image / "opt/mbr/bin" / entry, *words], cwd=tmp_path, env=environment, stderr=stream
        )
    try:
        end = time.monotonic() + 90
        while "ready: " not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        address = re.findall(r"listening on (http://\S+),", log.read_text())[0]
        health = last("Dockerfile", "HEALTHCHECK").words
        check = [image / "opt/mbr/bin" / health[0], *health[1:-1], health[-1].replace("http://127.0.0.1:8080", address)]
        subprocess.run(check, env=environment, check=True)
        assert Client(address, api_key="secret").translate("Good day.", nbest=2).text == "Guten Tag!"
        with pytest.raises(ServiceError, match="401"):
            Client(address).translate("Good day.")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_torch_is_installed_first_and_alone() -> None:
    for file in FILES:
        installs = [step.text for stage in stages(file) for step in stage if "pip install" in step.text]
        assert [text.endswith(" torch") for text in installs] == [True, False]
        (wheel,) = [text.rpartition("pip install")[2] for text in installs[1:]]
        assert "--no-deps" not in wheel


def test_the_image_for_cpus_has_the_torch_for_cpus_and_no_file_names_an_index() -> None:
    text = page("Dockerfile")
    assert "ARG TORCH_BACKEND=cpu\n" in text
    assert '--torch-backend "$TORCH_BACKEND"' in text
    for file in FILES:
        assert "index-url" not in page(file)
        assert set(re.findall(r"https?://[^/'\s:]+", page(file))) == {"http://127.0.0.1"}


def test_both_images_take_the_same_steps() -> None:
    assert steps_of_ours("Dockerfile") == steps_of_ours("Dockerfile.cuda")


@pytest.mark.parametrize("file", FILES)
def test_the_service_runs_without_root_and_is_watched(file: str) -> None:
    user = last(file, "USER").text
    assert int(user) > 0
    assert f"useradd --uid {user} " in " ".join(step.text for step in stages(file)[-1])
    words = last(file, "CMD").words
    port = words[words.index("--port") + 1]
    assert last(file, "EXPOSE").text == port
    health = last(file, "HEALTHCHECK")
    assert f"http://127.0.0.1:{port}/ready" in health.words[-1]
    compile(health.words[-1], "HEALTHCHECK", "exec")
    assert "HF_HUB_OFFLINE=1" in last(file, "ENV").text


@pytest.mark.parametrize("file", FILES)
def test_the_entry_point_is_a_command_that_takes_these_options(file: str) -> None:
    (entry,) = last(file, "ENTRYPOINT").words
    if entry not in tomllib.loads(page("pyproject.toml"))["project"]["scripts"]:
        pytest.skip(f"{entry} is not in this version")
    program = (
        f"from candidates.command.launch import start; import sys; sys.argv = [{entry!r}, '--help']; start({entry!r})"
    )
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert all(word in text for word in last(file, "CMD").words if word.startswith("--"))


def test_compose_and_kubernetes_agree_with_the_image() -> None:
    words = last("Dockerfile", "CMD").words
    port, keys = (words[words.index(option) + 1] for option in ("--port", "--api-key-file"))
    (service,) = yaml.safe_load(page("compose.yaml"))["services"].values()
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert [f"/run/secrets/{name}" for name in service["secrets"]] == [keys]
    (manifest,) = blocks(page("docs/production.md"), "yaml")
    deployment, inside = yaml.safe_load_all(manifest)
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsUser"] == int(last("Dockerfile", "USER").text)
    assert container["ports"][0]["containerPort"] == int(port) == inside["spec"]["ports"][0]["targetPort"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": int(port)}
    assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": int(port)}
    assert container["volumeMounts"][0]["mountPath"] == str(Path(keys).parent)
    assert pod["enableServiceLinks"] is False, "or Kubernetes sets MBR_SERVE_PORT for the Service mbr-serve"
    assert deployment["spec"]["selector"]["matchLabels"] == inside["spec"]["selector"]


def test_everything_waits_longer_than_the_service_drains() -> None:
    (service,) = yaml.safe_load(page("compose.yaml"))["services"].values()
    text = page("docs/production.md") + page("docs/serve.md")
    periods = [service["stop_grace_period"].removesuffix("s")]
    periods += re.findall(r"^TimeoutStopSec=(\d+)$|terminationGracePeriodSeconds: (\d+)$", text, re.MULTILINE)
    periods = ["".join(period) for period in periods]
    assert periods == ["40"] * 4
    assert Settings().drain_seconds + AFTER_ANSWERS < 40


def test_the_linter_of_container_files_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("hadolint is not installed here; `make lint` runs it")
    done = subprocess.run([linter, *FILES], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
