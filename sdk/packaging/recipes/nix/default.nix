# The package of the tree that contains this file.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "inlay";
  version = "0.1.0";
  src = builtins.path {
    name = "inlay";
    path = ../../../..;
    filter = path: type: !(builtins.elem (baseNameOf path) [ ".git" "build" ]);
  };

  nativeBuildInputs = with pkgs; [ cmake ninja pkg-config protobufc ];
  buildInputs = with pkgs; [ elfutils jansson libcyaml libyaml protobufc zlib ];

  cmakeFlags = [
    "-DINLAY_NODE=OFF"
    "-DINLAY_ONEDNN=OFF"
    "-DINLAY_OPENBLAS=OFF"
    "-DINLAY_PYTHON_EXTENSION=OFF"
    "-DINLAY_SAMPLES=OFF"
    "-DINLAY_SERVE=OFF"
    "-DINLAY_VULKAN=OFF"
    "-DINLAY_WERROR=OFF"
  ];

  doInstallCheck = true;
  installCheckPhase = ''
    $out/bin/inlay --version
    test -f $out/include/inlay/inlay.h
    test -f $out/lib/libinlay.so
    test -f $out/lib/cmake/inlay/inlayConfig.cmake
  '';

  meta = {
    description = "Plug-in execution providers for ONNX models";
    license = pkgs.lib.licenses.asl20;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "inlay";
  };
}
