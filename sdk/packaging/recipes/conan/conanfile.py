"""The Conan package of the tree that contains this file."""
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps


class InlayConan(ConanFile):
    name = "inlay"
    version = "0.1.0"
    description = "Plug-in execution providers for ONNX models"
    license = "Apache-2.0"
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    languages = "C"
    options_of_cmake = {"INLAY_NODE": False, "INLAY_ONEDNN": False, "INLAY_OPENBLAS": False,
                        "INLAY_PYTHON_EXTENSION": False, "INLAY_SAMPLES": False, "INLAY_SERVE": False,
                        "INLAY_VULKAN": False, "INLAY_WERROR": False}

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..", "..", "..")
        for pattern in ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "host/*", "ops/*", "providers/*",
                        "samples/*", "sdk/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("inlay runs on Linux, on x86-64 and arm64")

    def requirements(self):
        for reference in ("elfutils/0.190", "jansson/2.14", "libyaml/0.2.5", "protobuf-c/1.5.0", "zlib/1.3.1"):
            self.requires(reference)

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25]")
        self.tool_requires("protobuf-c/<host_version>")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update(self.options_of_cmake)
        toolchain.generate()
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.libs = ["inlay"]
        self.cpp_info.set_property("cmake_file_name", "inlay")
        self.cpp_info.set_property("pkg_config_name", "inlay")
