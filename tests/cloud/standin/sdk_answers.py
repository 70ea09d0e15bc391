"""Answers of the stand-in az by way of the SDK's own models, which azure-cli prints: a field that they do not have, or a value of another
type, fails. sdk_answers.py SOCKET serves until its standard input ends; needs azure-mgmt-compute and azure-mgmt-resource."""
import importlib
import json
import os
import re
import socketserver
import sys
import threading

from azure.mgmt.compute import models as compute

try:
    resources = importlib.import_module("azure.mgmt.resource.resources.models")
except ModuleNotFoundError:  # older ones
    resources = importlib.import_module("azure.mgmt.resource.models")

# Action -> the model of its answer, and the fields that azure-cli itself adds.
ANSWERS = {
    "group create": (resources.ResourceGroup, set()),
    "group show": (resources.ResourceGroup, set()),
    "resource list": (resources.GenericResourceExpanded, {"resourceGroup"}),
    "vm create": (None, {"id", "location", "powerState", "publicIpAddress", "resourceGroup"}),  # azure-cli's own, of no model
    "vm get-instance-view": (compute.VirtualMachine, {"resourceGroup"}),
    "vm list": (compute.VirtualMachine, {"resourceGroup", "powerState", "publicIps", "privateIps", "fqdns", "macAddresses"}),
    "vm list-skus": (compute.ResourceSku, set()),
    "vm list-usage": (compute.Usage, {"localName"}),
    "vm run-command invoke": (compute.RunCommandResult, set()),
}
PLAIN = {"str": str, "int": int, "float": (int, float), "bool": bool, "iso-8601": str, "object": object}


class NoSuchField(Exception):
    pass


def snake(name):
    return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)


def camel(name):
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def build(kind, value, place):
    """The value as the SDK has it. `kind` as in its attribute maps: str, [str], {str}, or a model's name."""
    if value is None:
        return None
    if kind[0] == "[":
        if not isinstance(value, list):
            raise NoSuchField(f"{place} is {value!r}, the SDK has a list")
        return [build(kind[1:-1], item, f"{place}[]") for item in value]
    if kind[0] == "{":
        if not isinstance(value, dict):
            raise NoSuchField(f"{place} is {value!r}, the SDK has a map")
        return {key: build(kind[1:-1], item, f"{place}.{key}") for key, item in value.items()}
    if kind in PLAIN:
        if not isinstance(value, PLAIN[kind]) or (kind == "int" and isinstance(value, bool)):
            raise NoSuchField(f"{place} is {value!r}, the SDK has {kind}")
        return value
    model = getattr(compute, kind, None) or getattr(resources, kind)
    if not hasattr(model, "_attribute_map"):  # an enumeration
        return model(value).value
    return of_model(model, value, place)


def of_model(model, fields, place, added=()):
    made, extra = model.__new__(model), {}
    for attribute in model._attribute_map:
        setattr(made, attribute, None)
    for name, value in fields.items():
        described = model._attribute_map.get(snake(name))
        if described:
            setattr(made, snake(name), build(described["type"], value, f"{place}.{name}"))
        elif name in added:
            extra[name] = value
        else:
            raise NoSuchField(f"{place}.{name} is no field of {model.__name__} of the SDK")
    return made, extra


def shown(value):
    """As azure-cli prints an object: its attributes in camel case, those without a value as null."""
    if isinstance(value, tuple):
        made, extra = value
        return {camel(name): shown(getattr(made, name)) for name in made._attribute_map} | extra
    if isinstance(value, list):
        return [shown(item) for item in value]
    return {key: shown(item) for key, item in value.items()} if isinstance(value, dict) else value


def serialised(action, answer):
    if action not in ANSWERS:
        return answer
    if isinstance(answer, list):
        return [serialised(action, item) for item in answer]
    model, added = ANSWERS[action]
    if model is None:
        unknown = set(answer) - added
        if unknown:
            raise NoSuchField(f"{action}: azure-cli does not print {', '.join(sorted(unknown))}")
        return answer
    return shown(of_model(model, answer, action, added))


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        action, answer = json.loads(self.rfile.readline())
        try:
            said = {"answer": serialised(action, answer)}
        except (NoSuchField, ValueError, AttributeError) as error:
            said = {"problem": str(error)}
        self.wfile.write(json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    with socketserver.ThreadingUnixStreamServer(sys.argv[1], Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print("ready", flush=True)
        sys.stdin.read()
        os.unlink(sys.argv[1])
