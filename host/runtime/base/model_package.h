/* base/model_package.h - model packages of ONNX Runtime 1.30 (schema 1): a folder whose manifest.json lists variants
 * of a model, each with its file and the execution provider that it was made for. `inlay pack` also states the error
 * of each, by which session/package.h chooses:
 *
 *     {"schema_version": "1.0", "components": {"model": {"variants": {"int8": {
 *         "variant_directory": "models", "executor_info": {"ort": {"model_file": "int8.onnx"}},
 *         "additional_metadata": {"inlay": {"error": 0.004}}}}}}}
 *
 * error is that of the worst output on samples: the root mean square of the differences, relative to that of the
 * outputs. Packages of several components are refused. All functions are thread-safe. */
#ifndef BASE_MODEL_PACKAGE_H
#define BASE_MODEL_PACKAGE_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct package_variant {
    const char *name;
    char *file;         /* path of the model; NULL: the variant has none, for the reason `why` */
    char *external_dir; /* of its weights; NULL: the folder of the file */
    char *why;
    double error; /* negative: not stated */
} package_variant;

typedef struct model_package {
    struct json_t *manifest;   /* owns the names */
    package_variant *variants; /* [count] in the order of the manifest */
    uint32_t count;
} model_package;

/* Is path a folder with a manifest.json that has components? */
bool package_is(const char *path);
/* Reads a package. INLAY_INVALID_MODEL: the manifest has something that schema 1 does not have, or a path that leaves
 * the folder though the layout is portable; INLAY_UNSUPPORTED: another schema, or several components. The caller calls
 * package_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status package_read(const char *path, model_package *out, inlay_diag *diag);
void package_deinit(model_package *package);
/* The variant of that name. INLAY_NOT_FOUND, with the names that exist; or the reason why it has no file. */
INLAY_NODISCARD inlay_status package_find(const model_package *package, const char *path, const char *name,
                                          const package_variant **out, inlay_diag *diag);
#endif
