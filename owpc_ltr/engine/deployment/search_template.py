"""Search templates: requests with a model that are stored in the cluster; applications name them.

An application sends `POST /INDEX/_search/template` with the name of an alias as the id, and the
user's words as a parameter. The deployment record of a model has the text of its template, which
the upload has proved. The script of an alias is that of its model, byte for byte, and every switch
of the alias replaces it.

An alias is written under a version, and a script has none. So the alias is switched first, and its
script follows:

- A command that ends in between leaves applications with the model before, which was proved, and is
  not deleted while a script serves it. `verify` names it. Any later switch of the alias, or the
  same command again, completes the switch, since the script follows what the alias is set to then.
  In the other order, applications would get a model whose upload may still fail and remove it.
- Of two commands at the same time the version of the alias refuses one. If both succeed in turn,
  each reads the alias again after it has written the script: the last one to write has read the
  last switch.
- A deletion removes the script before the alias, so that none serves a model that is gone.

A script of owpc-ltr begins with a comment: the store, the model and a digest of the rest. Any other
script, or one that another tool has changed, is left alone.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from typing import Any, NamedTuple

from owpc_ltr.engine.client.engine import Engine, answer_if_found
from owpc_ltr.engine.client.responses import EngineRefusal, NotAllowed, check_acknowledged
from owpc_ltr.engine.deployment.deployment_record import DeploymentRecords
from owpc_ltr.engine.stores import Store
from owpc_ltr.errors import BadInput, Refused, give_warnings
from owpc_ltr.names import check_name
from owpc_ltr.signatures import option_name

_MARK = re.compile(r"\{\{! owpc-ltr (\S+) (\S+) ([0-9a-f]{16}) \}\}")


class _Script(NamedTuple):
    """A script, and the model that it serves: None where it is not as owpc-ltr wrote it."""

    source: str
    model: str | None


class SearchTemplates:
    """The search templates of a store's models, and the scripts of its aliases."""

    def __init__(self, engine: Engine, store: Store) -> None:
        """Use the scripts of the cluster behind `engine`, for the models of `store`."""
        self._engine, self._store = engine, store
        self._place = f"{store.kind}/{store.name}" if store.name else store.kind

    def of_model(self, model: str) -> dict[str, Any] | None:
        """The template of a model, `source` and `params`, if it has one."""
        # Without a record, or with a damaged one, a model can be switched to nevertheless.
        with suppress(BadInput):
            record = DeploymentRecords(self._engine, self._store).find(model, whole=False)
            return record.search_template if record else None
        return None

    def serving(self, alias: str) -> str | None:
        """The model that the script of an alias serves, if there is one that may be read."""
        with suppress(NotAllowed):
            script = self._find(alias)
            return script.model if script else None
        return None

    def check(self, alias: str, *, needed: bool) -> None:
        """Raise Refused, before an upload, where a template is or is not `needed`.

        One is needed, and the name is that of another tool's script; or none is, and applications
        send the one of the former model.
        """
        with suppress(NotAllowed):
            script, option = self._find(alias), option_name("query_template")
            if needed and script and script.model is None:
                raise Refused(
                    f"{_not_ours(alias)}: delete it, choose another name with "
                    f"{option_name('name')}, or leave out {option}"
                )
            if not needed and script and script.model:
                raise Refused(
                    f"applications may send the search template '{alias}', which would keep the "
                    f"former model: give their query with {option}, or delete the script first"
                )

    def follow(self, name: str, model: str) -> bool:
        """Make the script of an alias the template of its model; not that of another tool.

        Returns whether it could. Warns where the cluster or the account takes none.
        """
        template = self.of_model(model)
        source = template["source"] if template else None
        try:
            script = self._find(name)
            if source and (script is None or (script.model and script.source != source)):
                self.put(name, source)
        except (EngineRefusal, NotAllowed) as refusal:
            give_warnings([
                f"the search template '{name}' was not switched: {refusal}; applications that send "
                f"it keep its model: complete the switch by owpc-ltr models promote {model}"
            ])  # fmt: skip
            return False
        return True

    def remove(self, name: str) -> None:
        """Delete the script of this name, if it is of owpc-ltr."""
        if self.serving(name) is not None:
            self.delete(name)

    def delete(self, name: str) -> None:
        """Delete the script of this name; nothing happens where there is none."""
        what = f"the deletion of the search template '{name}'"
        answer = answer_if_found(self._engine, "DELETE", _path(name), what)
        if answer is not None:
            check_acknowledged(answer.value, what)

    def drift(self, name: str, model: str) -> str | None:
        """How the script of an alias differs from what it should be; None if it does not."""
        template = self.of_model(model)
        try:
            script = self._find(name)
        except NotAllowed:
            return None
        serves = f"the search template '{name}' still serves '{script and script.model}'"
        restore = f"owpc-ltr models promote {model} restores it"
        if template is None:
            if script is None or script.model in {None, model}:
                return None
            return (
                f"{serves}, and '{model}' has none: upload it again with "
                f"{option_name('query_template')}, or delete the script '{name}' when no "
                "application sends it"
            )
        if script is None:
            return f"the search template '{name}' is gone: {restore}"
        if script.model is None:
            return f"{_not_ours(name)}: delete it, and {restore}"
        return None if script.source == template["source"] else f"{serves}: {restore}"

    def put(self, name: str, source: str) -> None:
        """Store a script; it replaces an earlier one."""
        body = {"script": {"lang": "mustache", "source": source}}
        answer = self._engine.request("PUT", _path(name), body=body)
        check_acknowledged(answer, f"the search template '{name}'")

    def signed(self, model: str, text: str) -> str:
        """The text of a model's template as owpc-ltr stores it."""
        return f"{{{{! owpc-ltr {self._place} {model} {_digest(text)} }}}}{text}"

    def _find(self, name: str) -> _Script | None:
        answer = answer_if_found(self._engine, "GET", _path(name), f"the script '{name}'")
        if answer is None:
            return None
        source = answer["script"]["source"].text
        mark = _MARK.match(source)
        ours = mark and mark[1] == self._place and mark[3] == _digest(source[mark.end() :])
        return _Script(source, mark[2] if mark and ours else None)


def _path(name: str) -> str:
    return f"/_scripts/{check_name('search template', name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _not_ours(name: str) -> str:
    return f"the script '{name}' in the cluster was not stored by owpc-ltr, or was changed since"
