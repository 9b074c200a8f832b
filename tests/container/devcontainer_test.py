"""The development container and the container's recipe do what the README says, by its own commands."""

import json
import re
from pathlib import Path

import pytest

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: run ./setup.sh")

ROOT = Path(__file__).resolve().parents[2]
TEXT = {"type": "string", "minLength": 1}
# What the file may use of the development containers' specification (containers.dev): a misspelt property,
# which a service would pass over without a word, is an error here.
SCHEMA = {
    "type": "object",
    "required": ["image", "postCreateCommand"],
    "additionalProperties": False,
    "properties": {
        "name": TEXT,
        "image": TEXT,
        "postCreateCommand": TEXT,
        "hostRequirements": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cpus": {"type": "integer", "minimum": 1},
                "memory": {"type": "string", "pattern": r"^\d+([tgmk]b)?$"},
                "storage": {"type": "string", "pattern": r"^\d+([tgmk]b)?$"},
            },
        },
        "customizations": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "vscode": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "extensions": {
                            "type": "array",
                            "items": {"type": "string", "pattern": r"^[\w-]+\.[\w-]+$"},
                        },
                        "settings": {"type": "object"},
                    },
                }
            },
        },
    },
}


@pytest.fixture
def devcontainer():
    return json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())


def test_its_properties_are_known(devcontainer):
    jsonschema.validate(devcontainer, SCHEMA)
    with pytest.raises(jsonschema.ValidationError, match="postCreateComand"):
        jsonschema.validate(devcontainer | {"postCreateComand": "ls"}, SCHEMA)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/start.md"])
def test_its_command_is_the_readmes(devcontainer, page):
    block = re.search(r"```sh\n(\./setup\.sh .*)\n", (ROOT / page).read_text())
    assert block[1] == devcontainer["postCreateCommand"]


def test_the_recipe_has_the_same_base_and_commands(devcontainer):
    """Its image has no GPU to run on, and the exercises instead of a step."""
    recipe = (ROOT / "container/Containerfile").read_text()
    assert re.findall(r"^FROM (.*)$", recipe, re.MULTILINE) == [devcontainer["image"]]
    setup, build, _ = devcontainer["postCreateCommand"].split(" && ")
    assert f"RUN {setup} -Dcuda=disabled && {build} &&" in recipe


def test_the_pages_command_is_the_recipes():
    """What start.md tells a reader to type stands in the recipe, word for word."""
    recipe = (ROOT / "container/Containerfile").read_text()
    typed = re.findall(r"^docker .*$", (ROOT / "docs/start.md").read_text(), re.MULTILINE)
    assert len(typed) == 2 and all(f"#   {line}\n" in recipe for line in typed)
