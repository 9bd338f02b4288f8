#include "gpu_shaders.h"
#include "gpu_shaders.inc" /* generated: an array a shader */

const gpu_code gpu_shaders[] = {
#define X(name, source, defines) { shader_##name, sizeof shader_##name },
#include "shaders.def"
#undef X
};
