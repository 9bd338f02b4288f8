/* data/value.h - values of the runtime from and to files, text and JSON. */
#ifndef DATA_VALUE_H
#define DATA_VALUE_H
#include "base/arena.h"
#include "base/memory.h"
#include "inlay/inlay.h"
#include "model/model.h"
#include <jansson.h>
#include <stdio.h>

/* A new value with a copy of ONNX test data, lists included. dtype is the declared element type, for lists that are
 * empty. */
INLAY_NODISCARD inlay_status value_from_datum(const model_datum *datum, inlay_dtype dtype, inlay_value **out_value,
                                              inlay_diag *diag);

/* model_datum_load() of what info declares: a sparse tensor may be a SparseTensorProto or dense. */
INLAY_NODISCARD inlay_status value_datum(const char *path, const inlay_io_info *info, struct arena *arena,
                                         model_datum *out, inlay_diag *diag);
/* Reads path for an input of that kind and type: .npy (tensors), .npz (sparse tensors, maps; npz.h) or .pb
 * (TensorProto, SparseTensorProto, SequenceProto, OptionalProto, MapProto). A tensor for an optional input is wrapped.
 * The element type must be right, there is no conversion; but bfloat16 may come as its bits in uint16, as ONNX's test
 * data had it before it knew the type. */
INLAY_NODISCARD inlay_status value_load(const char *path, const inlay_io_info *info, inlay_value **out_value,
                                        inlay_diag *diag);
/* Can a flag's values be read from there: a folder, or FILE.npz? */
INLAY_NODISCARD inlay_status value_source(const char *flag, const char *from, inlay_diag *diag);
/* The value of the declared name in a folder, as NAME.npy, .pb or .npz, or in an archive FILE.npz, as an array;
 * *out_value is NULL where there is none of that name, for which value_missing() is the error ("input" or "output"). */
INLAY_NODISCARD inlay_status value_load_named(const char *from, const inlay_io_info *info, inlay_value **out_value,
                                              inlay_diag *diag);
INLAY_NODISCARD inlay_status value_missing(const char *what, const char *from, const inlay_io_info *info,
                                           inlay_diag *diag);

/* Does a tensor of the first type hold the bits of the second, which its writer had no name for? */
static inline bool value_same_bits(inlay_dtype stored, inlay_dtype meant)
{
    return stored == INLAY_UINT16 && meant == INLAY_BFLOAT16;
}

/* Writes a value below dir: a tensor as <name>.npy, declared as sparse as <name>.pb (SparseTensorProto), a map as
 * <name>.pb (MapProto), the items of a list as <name>.0.npy and so on, an optional as its content or not at all. '/'
 * and ':' in names become '_'. */
INLAY_NODISCARD inlay_status value_save(const char *dir, const inlay_io_info *info, const inlay_value *value,
                                        inlay_diag *diag);

/* "dir/name" + suffix with '/' and ':' of the name as '_', in the arena; NULL: out of memory. */
char *value_path(struct arena *arena, const char *dir, const char *name, const char *suffix);

/* "float[2, 3]", "sequence(4)", "optional(float[2])": the type in words, cut to fit. Returns text. */
char *value_type_text(const inlay_value *value, char *text, size_t bytes);

/* One line: type, first elements (at most max of each tensor), minimum, maximum and mean; lists have a line an item. */
void value_print(FILE *to, const char *name, const inlay_value *value, uint32_t max);
/* A number, which in JSON cannot be infinite or NaN: then a string. */
json_t *value_number_json(double v);
/* {"type", "shape", "values" (the first max), "min", "max", "mean", "nan"}. NaN and infinities, which JSON lacks, are
 * strings. NULL: out of memory. */
json_t *value_json(const char *name, const inlay_value *value, uint32_t max);
#endif
