/* module.h - what `inlay bundle --target wasm32` generates in addition to bundle.h: the model behind the exports of a
 * WebAssembly module. */
#ifndef BUNDLE_MODULE_H
#define BUNDLE_MODULE_H
#include "bundle.h"

enum { BUNDLE_MODULE_TENSORS = 256 }; /* most inputs and outputs together */

/* description: JSON {"inputs": [{"name": "x", "type": "float", "array": "Float32Array", "dims": [1, 3]}], "outputs":
 * [...], "weights": BYTES of a separate file of weights}. weights: the memory for the contents of that file. */
typedef struct bundle_exports {
    const bundle_model *model;
    const char *description;
    const void *weights;
} bundle_exports;
extern const bundle_exports bundle_module;
#endif
