/* gpu_shaders.h - the modules that the build made of shaders/. */
#ifndef VULKAN_GPU_SHADERS_H
#define VULKAN_GPU_SHADERS_H
#include <stddef.h>
#include <stdint.h>

typedef struct gpu_code {
    const uint32_t *words;
    size_t bytes;
} gpu_code;
extern const gpu_code gpu_shaders[]; /* by gpu_shader */
#endif
