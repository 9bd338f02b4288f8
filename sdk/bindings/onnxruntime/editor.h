/* editor.h - the objects of OrtModelEditorApi. */
#ifndef ORT_EDITOR_H
#define ORT_EDITOR_H
#include "ort.h"

/* The IR version of built models, which supports every opset. */
enum { BUILT_IR_VERSION = 13 };

struct OrtValueInfo {
    char *name;
    OrtTypeInfo *type;
};

struct OrtNode {
    char *op, *domain, *name;
    char **inputs, **outputs; /* [input_count], [output_count] */
    OrtOpAttr **attrs;        /* [attr_count] */
    size_t input_count, output_count, attr_count;
    size_t id; /* its position in the graph; 0: it is in none */
};

struct initializer {
    char *name;
    OrtValue *value;
};

struct OrtGraph {
    OrtValueInfo **inputs, **outputs; /* [input_count], [output_count] */
    OrtNode **nodes;                  /* [node_count] */
    struct initializer *initializers; /* [initializer_count] */
    size_t input_count, output_count, node_count, initializer_count;
};

struct OrtModel {
    char **domains; /* [opset_count] */
    int *versions;  /* [opset_count] */
    size_t opset_count;
    OrtGraph *graph;
};
#endif
