"""Cutting artifacts into lib/ and modules/: nothing twice, nothing lost, nothing unused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from owpc_ltr_node.distribution import MODULES, UNUSED, Module, cut, log4j_core, singles
from owpc_ltr_node.maven import Jar
from owpc_ltr_node.release import Release

names = st.sampled_from(["lucene-core", "jackson-core", "netty-buffer", "asm", UNUSED[1]])
groups = st.sampled_from(["com.fasterxml", "tools.jackson", "org.ow2", UNUSED[0]])
jars = st.lists(st.builds(Jar, groups, names, st.sampled_from(["1.0", "2.0"])), max_size=8)
modules = st.dictionaries(st.sampled_from(["painless", "netty", "reindex"]), jars)


@given(jars, jars, modules)
def test_no_class_loader_sees_an_artifact_twice(
    server: list[Jar], singles: list[Jar], own: dict[str, list[Jar]]
) -> None:
    folders = cut(server, singles, own)
    for name in own:
        seen = [jar.identity for jar in (*folders["lib"], *folders[f"modules/{name}"])]
        assert len(seen) == len(set(seen))


@given(jars, jars, modules)
def test_every_artifact_is_in_reach_of_the_module_that_needs_it(
    server: list[Jar], singles: list[Jar], own: dict[str, list[Jar]]
) -> None:
    folders = cut(server, singles, own)
    for name, needed in own.items():
        reach = {jar.identity for jar in (*folders["lib"], *folders[f"modules/{name}"])}
        assert {jar.identity for jar in needed if (jar.group, jar.name) != UNUSED} <= reach


@given(jars, jars, modules)
def test_quic_is_nowhere(server: list[Jar], singles: list[Jar], own: dict[str, list[Jar]]) -> None:
    everywhere = itertools.chain.from_iterable(cut(server, singles, own).values())
    assert all((jar.group, jar.name) != UNUSED for jar in everywhere)


def test_lib_wins_over_another_version_in_a_module() -> None:
    asm = Jar("org.ow2.asm", "asm", "9.7")
    folders = cut([asm], [], {"lang-painless": [Jar("org.ow2.asm", "asm", "9.10")]})
    assert folders == {"lib": [asm], "modules/lang-painless": []}


def test_artifacts_of_one_name_and_two_groups_both_stay() -> None:
    both = [
        Jar("com.fasterxml.jackson.core", "jackson-core", "2.22.1"),
        Jar("tools.jackson.core", "jackson-core", "3.2.1"),
    ]
    assert cut(both, [], {})["lib"] == both


def test_a_classifier_makes_another_artifact() -> None:
    plain = Jar("net.java.dev.jna", "jna", "5.16.0")
    native = Jar("net.java.dev.jna", "jna", "5.16.0", "natives")
    assert native.filename == "jna-5.16.0-natives.jar"
    assert cut([plain, native], [], {})["lib"] == [plain, native]


def test_the_logging_backend_has_the_version_of_its_interface() -> None:
    api = Jar("org.apache.logging.log4j", "log4j-api", "2.25.4")
    assert str(log4j_core([api])) == "org.apache.logging.log4j:log4j-core:2.25.4"


@pytest.mark.parametrize("version", ["2.19.6", "3.8.0"])
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_descriptor_has_no_empty_value(module: Module, version: str) -> None:
    lines = module.descriptor(Release(version=version)).splitlines()
    assert all(value for _, _, value in (line.partition("=") for line in lines))
    assert f"version={version}" in lines


def test_classes_are_named_and_walls_are_made_as_each_major_version_has_them() -> None:
    older, newer = Release(version="2.13.0"), Release(version="3.0.0")
    netty = MODULES[0]
    assert netty.plugin_class(older) == "org.opensearch.transport.Netty4Plugin"
    assert netty.plugin_class(newer) == "org.opensearch.transport.Netty4ModulePlugin"
    assert [len(singles(each)) for each in (older, newer)] == [1, 2]
