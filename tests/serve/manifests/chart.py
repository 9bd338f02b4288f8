"""Renders the Helm chart of samples/deploy, with the part of Helm's template language that it uses.

Each template has lines of text with {{ .Values.NAME }} or {{ .Release.Name }}, optionally | quote; a line
{{- toYaml .Values.NAME | nindent N }}; and {{- if .Values.NAME }} ... {{- end }} around lines. Anything else is an error, as are
values that no template uses."""
import re

import yaml


class Chart:
    """A chart with its values, some of which are replaced by `changes` (dotted names)."""

    def __init__(self, folder, changes=None):
        self.folder = folder
        self.used = set()
        self.values = yaml.safe_load((folder / "values.yaml").read_text())
        about = yaml.safe_load((folder / "Chart.yaml").read_text())
        assert about["apiVersion"] == "v2" and about["name"] == folder.name, about
        assert re.fullmatch(r"\d+\.\d+\.\d+", about["version"]) and about["type"] == "application", about
        for name, value in (changes or {}).items():
            at = self.values
            for key in name.split(".")[:-1]:
                at = at[key]
            assert name.split(".")[-1] in at, f"there is no value {name}"
            at[name.split(".")[-1]] = value

    def value(self, name):
        """The value of a dotted name, which must exist."""
        if name == ".Release.Name":
            return "inlay-serve"
        assert name.startswith(".Values."), name
        at = self.values
        for key in name[len(".Values.") :].split("."):
            assert isinstance(at, dict) and key in at, f"{name} is not in values.yaml"
            at = at[key]
        self.used.add(name[len(".Values.") :])
        return at

    def scalar(self, match):
        """The text of {{ NAME }} or {{ NAME | quote }}."""
        value = self.value(match[1])
        assert not isinstance(value, (dict, list)), f"{match[1]} is not a simple value"
        return f'"{value}"' if match[2] else str(value)

    def render(self, name):
        """A template's text."""
        shown, out = [True], []
        for line in (self.folder / "templates" / name).read_text().split("\n"):
            condition = re.fullmatch(r"\{\{- if (\.[\w.]+) \}\}", line)
            block = re.fullmatch(r" *\{\{- toYaml (\.[\w.]+) \| nindent (\d+) \}\}", line)
            if condition:
                shown.append(bool(self.value(condition[1])) and shown[-1])
            elif line == "{{- end }}":
                shown.pop()
            elif block:
                text = yaml.safe_dump(self.value(block[1]), default_flow_style=False)
                out += [" " * int(block[2]) + one for one in text.rstrip("\n").split("\n")]
            else:
                line = re.sub(r"\{\{ (\.[\w.]+)( \| quote)? \}\}", self.scalar, line)
                assert "{{" not in line, f"{name}: {line}"
                if shown[-1]:
                    out.append(line)
        assert shown == [True], f"{name}: an if without its end"
        return "\n".join(out)

    def documents(self):
        """The objects of all templates, as one text; each template has to be used."""
        return "\n---\n".join(self.render(path.name) for path in sorted((self.folder / "templates").iterdir()))

    def unused(self):
        """Values that no template uses."""

        def names(value, prefix=""):
            for key, below in value.items():
                yield from names(below, f"{prefix}{key}.") if isinstance(below, dict) else [prefix + key]

        return [name for name in names(self.values) if not any((name + ".").startswith(used + ".") for used in self.used)]
