# The formula of the tree that contains it: HOMEBREW_INLAY_TARBALL is the path of a tarball of the tree.
class Inlay < Formula
  desc "Plug-in execution providers for ONNX models"
  homepage "https://inlay.example"
  url "file://#{ENV.fetch("HOMEBREW_INLAY_TARBALL", "/nonexistent/inlay.tar.gz")}"
  version "0.1.0"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "elfutils"
  depends_on "jansson"
  depends_on "libcyaml"
  depends_on "libyaml"
  depends_on :linux
  depends_on "protobuf-c"
  depends_on "zlib"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", *std_cmake_args,
           "-DINLAY_NODE=OFF", "-DINLAY_ONEDNN=OFF", "-DINLAY_OPENBLAS=OFF", "-DINLAY_PYTHON_EXTENSION=OFF",
           "-DINLAY_SAMPLES=OFF", "-DINLAY_SERVE=OFF", "-DINLAY_VULKAN=OFF", "-DINLAY_WERROR=OFF"
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/inlay --version")
    assert_path_exists include/"inlay/inlay.h"
    assert_path_exists lib/"libinlay.so"
    assert_path_exists lib/"cmake/inlay/inlayConfig.cmake"
  end
end
