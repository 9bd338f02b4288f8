/* model/save.h - declarations shared by the files of the writer; private to this folder. */
#ifndef MODEL_SAVE_H
#define MODEL_SAVE_H
#include "model/model.h"
#include "base/wire.h"

enum { EXTERNAL_ALIGN = 4096 }; /* alignment of tensors in the external file */

/* A tensor that is written to the external file. */
typedef struct save_external {
    const void *data;
    uint64_t bytes;
    uint64_t offset; /* in the external file */
    uint64_t hash;   /* of the data, with saver.shares */
    const graph_model *model;
} save_external;

struct saver {
    const graph_model *model;
    const model_save_options *options;
    struct wire wire;
    save_external *external; /* [external_count] in the order of their offsets */
    size_t external_count;
    uint64_t external_end; /* bytes of the external file so far */
    bool shares;           /* equal tensors are stored once */
    struct arena scratch;
    inlay_diag *diag;
};

/* Writes a StringStringEntryProto. In save_tensor.c, like the next function. */
void save_entry(struct wire *wire, uint32_t field, const char *key, const char *value);
/* Writes the fields of a TensorProto. may_be_external: the data may be stored in the external file (initializers only,
 * because other readers may not support external attributes). */
void save_tensor(struct saver *saver, const char *name, const inlay_tensor_view *view, bool may_be_external);
/* Writes the fields of a GraphProto: the main graph with its bodies. */
INLAY_NODISCARD inlay_status save_graph(struct saver *saver, const struct graph *graph);
/* Writes the fields of a FunctionProto. */
INLAY_NODISCARD inlay_status save_function(struct saver *saver, const graph_function *function);
#endif
