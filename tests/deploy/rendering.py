"""Renders what is under deploy/kubernetes, as far as its files go; a test compares it with kubectl.

So the facts in the manifests are checked wherever the tests run, and kubectl where there is one.
"""

from __future__ import annotations

import copy
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

KUBERNETES = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"

Object = dict[str, Any]


def rendered(*components: str) -> list[Object]:
    """The objects of the base with these components."""
    objects: list[Object] = []
    for folder in ("base", *(f"components/{name}" for name in components)):
        place = KUBERNETES / folder
        (plan,) = documents(place / "kustomization.yaml")
        assert set(plan) <= {"apiVersion", "kind", "labels", "resources", "patches"}, folder
        for name in plan.get("resources", []):
            objects += documents(place / name)
        for patch in plan.get("patches", []):
            for change in documents(place / patch["path"]):
                objects = [patched(each, change, patch.get("target")) for each in objects]
        for each in objects if folder == "base" else []:
            for labels in plan.get("labels", []):
                each["metadata"].setdefault("labels", {}).update(labels["pairs"])
    return objects


def documents(file: Path) -> list[Any]:
    """What a file of YAML holds."""
    return list(yaml.safe_load_all(file.read_text("utf-8")))


def patched(each: Object, change: Any, target: Object | None) -> Object:
    """The object with a change that concerns it."""
    aim = target or {"kind": change["kind"], "name": change["metadata"]["name"]}
    if (each["kind"], each["metadata"]["name"]) != (aim["kind"], aim["name"]):
        return each
    if isinstance(change, dict):
        return merged(each, change)
    each = copy.deepcopy(each)
    for step in change:
        *path, last = step["path"].strip("/").split("/")
        place = each
        for name in path:
            place = place[name]
        assert (step["op"], last) == ("add", "-"), "no other step is known here"
        place.append(step["value"])
    return each


def merged(one: Any, other: Any) -> Any:
    """Mappings are merged, everything else is replaced, as for an object without a known schema."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return other
    return one | {name: merged(one.get(name), value) for name, value in other.items()}


def by_kubectl(kubectl: str, folder: Path, *components: str) -> list[Object]:
    """The same by kubectl, through an overlay in an empty folder."""
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(KUBERNETES / "base", folder)],
        "components": [os.path.relpath(KUBERNETES / "components" / c, folder) for c in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    ran = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return list(yaml.safe_load_all(ran.stdout))


def one(objects: list[Object], kind: str) -> Object:
    """The only object of a kind."""
    (found,) = [each for each in objects if each["kind"] == kind]
    return found
