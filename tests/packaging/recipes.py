#!/usr/bin/env python3
"""The recipes of sdk/packaging/recipes: they parse, and their version, options, requirements and files are those of the
build. The port of vcpkg configures a copy of the tree, and Nix, if installed, evaluates its recipe there.

  recipes.py BUILD SOURCE_DIR CMAKE"""
import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types

BUILD, SOURCE, CMAKE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
RECIPES = SOURCE / "sdk/packaging/recipes"
# The module that pkg-config knows -> its package; None: the package manager has none, see the README.
PACKAGES = {
    "vcpkg": {"libprotobuf-c": "protobuf-c", "libcyaml": None, "yaml-0.1": "libyaml", "jansson": "jansson",
              "libelf": "elfutils", "zlib": "zlib"},
    "conda": {"libprotobuf-c": "protobuf-c", "libcyaml": "libcyaml", "yaml-0.1": "yaml", "jansson": "jansson",
              "libelf": "elfutils", "zlib": "zlib"},
    "homebrew": {"libprotobuf-c": "protobuf-c", "libcyaml": "libcyaml", "yaml-0.1": "libyaml", "jansson": "jansson",
                 "libelf": "elfutils", "zlib": "zlib"},
    "nix": {"libprotobuf-c": "protobufc", "libcyaml": "libcyaml", "yaml-0.1": "libyaml", "jansson": "jansson",
            "libelf": "elfutils", "zlib": "zlib"},
}
PACKAGES["conan"] = PACKAGES["vcpkg"]
# Stands in for vcpkg's functions: what the port calls is done or checked, and nothing else is known.
VCPKG = r"""
function(vcpkg_find_acquire_program name)
  find_program(${name} NAMES pkg-config pkgconf REQUIRED)
  set(${name} "${${name}}" PARENT_SCOPE)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(arg "" "SOURCE_PATH" "OPTIONS" ${ARGN})
  list(FILTER arg_OPTIONS EXCLUDE REGEX "PROTOC_C")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${WORK}/build -G Ninja ${arg_OPTIONS}
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(result)
    message(FATAL_ERROR "the port does not configure: ${said}")
  endif()
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(arg "" "" "FILE_LIST" ${ARGN})
  foreach(file IN LISTS arg_FILE_LIST)
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "the port installs ${file}, which does not exist")
    endif()
  endforeach()
endfunction()
function(vcpkg_cmake_install)
endfunction()
function(vcpkg_cmake_config_fixup)
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_copy_tools)
endfunction()
set(CURRENT_HOST_INSTALLED_DIR ${WORK})
set(CURRENT_PACKAGES_DIR ${WORK}/packages)
include(${PORT}/portfile.cmake)
"""
# Stands in for nixpkgs: packages are their names, and a derivation is its attributes.
NIX = """let
  names = [ %s ];
  pkgs = builtins.listToAttrs (map (name: { inherit name; value = name; }) names) // {
    lib.licenses.asl20 = "Apache-2.0";
    stdenv.mkDerivation = attributes: attributes;
  };
  recipe = import %s { inherit pkgs; };
in builtins.toJSON (recipe // { src = "${recipe.src}"; })"""
wrong = []


def check(holds, text):
    if not holds:
        wrong.append(text)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def parsed(name, path):
    """Parses the file with the parser of its language, if Debian's is installed."""
    tool = {".rb": ["ruby", "-c"], ".nix": ["nix-instantiate", "--parse"], ".sh": ["bash", "-n"]}.get(path.suffix)
    if tool and shutil.which(tool[0]):
        fine, said = run(*tool, str(path))
        check(fine, f"{name}: {path.name} does not parse: {said}")


def nix_recipe(tree, work):
    """Evaluates the recipe in a store below work: its source is the tree without builds."""
    if not shutil.which("nix-instantiate"):
        return
    (tree / "build").mkdir()
    names = sorted({package for package in PACKAGES["nix"].values() if package} | {"cmake", "ninja", "pkg-config"})
    expression = NIX % (" ".join(f'"{name}"' for name in names), tree / "sdk/packaging/recipes/nix")
    place = {f"NIX_{name}_DIR": f"{work}/nix/{name.lower()}" for name in ("STORE", "STATE", "LOG", "CONF", "LOCALSTATE")}
    done = subprocess.run(["nix-instantiate", "--eval", "--strict", "--json", "--read-write-mode", "--option",
                           "build-users-group", "", "-E", expression], capture_output=True, text=True, check=False,
                          env=dict(os.environ, HOME=work, **place))
    check(done.returncode == 0, f"nix: {done.stderr}")
    if done.returncode == 0:
        recipe = json.loads(json.loads(done.stdout))
        content = {entry.name for entry in pathlib.Path(recipe["src"]).iterdir()}
        check("CMakeLists.txt" in content and "build" not in content, f"nix: its source is {sorted(content)}")
        check(set(recipe["buildInputs"]) == {package for package in PACKAGES["nix"].values() if package},
              f"nix: {recipe['buildInputs']}")


def conan_class(text):
    """The class of the recipe, with stand-ins for Conan's modules."""
    copied = []
    for module in {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}:
        stand_in = types.ModuleType(module)
        stand_in.__getattr__ = lambda name: type(name, (), {})
        sys.modules[module] = stand_in
    names = {}
    exec(compile(text, "conanfile.py", "exec"), names)  # pylint: disable=exec-used
    names["copy"] = lambda recipe, pattern, source, target: copied.append((pattern, pathlib.Path(source)))
    recipe = names["InlayConan"]
    recipe.recipe_folder, recipe.export_sources_folder = str(RECIPES / "conan"), "/nowhere"
    recipe.requires = lambda self, reference: copied.append(reference)
    recipe().export_sources()
    sources = list(copied)
    copied.clear()
    recipe().requirements()
    return recipe, sources, list(copied)


def main():
    cmake = (SOURCE / "CMakeLists.txt").read_text()
    version = re.search(r"project\(inlay VERSION ([0-9.]+)", cmake).group(1)
    known = set(re.findall(r"^option\((INLAY_\w+)", cmake, re.M))
    modules = {module for names in re.findall(r"^pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET ([^)]*)\)", cmake, re.M)
               for module in names.split()}
    texts = {folder.name: "\n".join(file.read_text() for file in sorted(folder.iterdir()))
             for folder in sorted(RECIPES.iterdir()) if folder.is_dir()}
    check(set(texts) == set(PACKAGES), f"recipes of {sorted(texts)}, packages of {sorted(PACKAGES)}")
    recipe, sources, requires = conan_class((RECIPES / "conan/conanfile.py").read_text())
    port = json.loads((RECIPES / "vcpkg/vcpkg.json").read_text())
    depends = {entry if isinstance(entry, str) else entry["name"] for entry in port["dependencies"]}

    with tempfile.TemporaryDirectory() as work:
        installed = {str(file.relative_to(BUILD / "installed")) for file in (BUILD / "installed").rglob("*")}
        installed |= {re.sub(r"^lib/[a-z0-9_]+-linux-gnu\w*/", "lib/", name) for name in installed}
        reference = None
        for name, text in texts.items():
            for path in (RECIPES / name).iterdir():
                parsed(name, path)
            check(re.search(rf'version\W+(?:[a-z]\W+)?{re.escape(version)}\b', text), f"{name}: not version {version}")
            options = {key: value in ("ON", "True")
                       for key, value in re.findall(r'(?:-D|")(INLAY_[A-Z_]+)(?:=|": )(\w+)', text)}
            check(set(options) <= known, f"{name}: CMakeLists.txt has no option {sorted(set(options) - known)}")
            reference = reference or options
            check(options == reference, f"{name}: other options than {next(iter(texts))}: {options}")
            for module in modules:
                check(module in PACKAGES[name], f"{name}: no package is known for {module}, which the build requires")
                package = PACKAGES[name].get(module)
                check(package is None or re.search(rf"(?<![\w-]){re.escape(package)}(?![\w-])", text),
                      f"{name}: does not require {package}")
            paths = re.findall(r"\$(?:PREFIX|out)/([\w./-]+)", text)
            paths += [f"{folder}/{path}" for folder, path in re.findall(r'(include|lib)/"([\w./-]+)"', text)]
            for path in paths:
                check(path in installed, f"{name}: the build installs no {path}")
        check(depends >= {package for package in PACKAGES["vcpkg"].values() if package}, f"vcpkg.json: {depends}")
        check({entry.split("/")[0] for entry in requires} == {p for p in PACKAGES["conan"].values() if p},
              f"conan: requires {requires}")
        check(recipe.version == version, "conan: version")
        for pattern, root in sources:
            check(any(root.resolve().glob(pattern)), f"conan: {pattern} matches nothing in {root.resolve()}")
        for folder in re.findall(r"^ *add_subdirectory\((\w+)", cmake, re.M):
            check(folder == "tests" or f"{folder}/*" in {pattern for pattern, _ in sources},
                  f"conan: does not export {folder}, which CMakeLists.txt adds")

        tree = pathlib.Path(work, "tree")
        tree.mkdir()
        fine, said = run("bash", str(SOURCE / "sdk/packaging/tree.sh"), str(tree))
        check(fine, said)
        pathlib.Path(work, "vcpkg.cmake").write_text(VCPKG)
        fine, said = run(CMAKE, f"-DWORK={work}", f"-DPORT={tree}/sdk/packaging/recipes/vcpkg", "-P",
                         work + "/vcpkg.cmake")
        check(fine, said)
        nix_recipe(tree, work)
    try:
        import yaml
        meta = re.sub(r"\{\{.*?\}\}", "compiler", (RECIPES / "conda/meta.yaml").read_text())
        check(yaml.safe_load(meta)["package"] == {"name": "inlay", "version": version}, "conda: its package")
    except ImportError:
        print("python3-yaml is not installed: conda's meta.yaml is not parsed")
    for line in wrong:
        print(line)
    sys.exit(f"{len(wrong)} faults" if wrong else 0)


main()
