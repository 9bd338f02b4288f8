"""Information about the package."""

package_name, version, cuda_version = "onnxruntime", "1.30.0", ""


def get_package_name_and_version_info():
    """(name, version, version of CUDA) of the package whose interface this is."""
    return package_name, version, cuda_version


def check_distro_info():
    """Does nothing: every Linux distribution on which the library loads is supported."""
