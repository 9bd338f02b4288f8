/* The exported symbols, with the symbol version of each release that programs may be linked to. */
#include "ort.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT const OrtApiBase *own_OrtGetApiBase(void);
EXPORT const OrtApiBase *own_OrtGetApiBase(void)
{
    return ort_base();
}

/* Older programs call these functions by name. */
EXPORT OrtStatus *own_OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions *options, int use_arena);
EXPORT OrtStatus *own_OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions *options, int use_arena)
{
    (void)use_arena;
    ORT_NEED(options);
    return NULL;
}

EXPORT OrtStatus *own_OrtSessionOptionsAppendExecutionProvider_CUDA(OrtSessionOptions *options, int device_id);
EXPORT OrtStatus *own_OrtSessionOptionsAppendExecutionProvider_CUDA(OrtSessionOptions *options, int device_id)
{
    (void)options, (void)device_id;
    return ort_fail(ORT_FAIL, "%s: the execution provider is not enabled in this build", __func__ + sizeof "own");
}

EXPORT OrtStatus *own_OrtSessionOptionsAppendExecutionProvider_Tensorrt(OrtSessionOptions *options, int device_id);
EXPORT OrtStatus *own_OrtSessionOptionsAppendExecutionProvider_Tensorrt(OrtSessionOptions *options, int device_id)
{
    (void)options, (void)device_id;
    return ort_fail(ORT_FAIL, "%s: the execution provider is not enabled in this build", __func__ + sizeof "own");
}

/* The same functions with each version, and with the default version that the linker uses. The names with a suffix are
 * not exported. */
#define ALIAS(name, word, version)                                                                                     \
    extern __typeof__(own_##name) name##_##word __attribute__((alias("own_" #name), visibility("default")));           \
    __asm__(".symver " #name "_" #word "," #name version);
#define ALIASES(word, version)                                                                                         \
    ALIAS(OrtGetApiBase, word, version)                                                                                \
    ALIAS(OrtSessionOptionsAppendExecutionProvider_CPU, word, version)                                                 \
    ALIAS(OrtSessionOptionsAppendExecutionProvider_CUDA, word, version)                                                \
    ALIAS(OrtSessionOptionsAppendExecutionProvider_Tensorrt, word, version)
#define VERSION(word, text) ALIASES(word, "@VERS_" text)
#include "versions.def"
ALIASES(latest, "@@VERS_" ORT_VERSION)
