/* data/value.h - converts values of the runtime from and to files, text and JSON. */
#ifndef DATA_VALUE_H
#define DATA_VALUE_H
#include "base/arena.h"
#include "base/memory.h"
#include "inlay/inlay.h"
#include "model/model.h"
#include <jansson.h>
#include <stdio.h>

/* Creates a value with a copy of ONNX test data, including lists. dtype is the declared element type, for empty lists.
 */
INLAY_NODISCARD inlay_status value_from_datum(const model_datum *datum, inlay_dtype dtype, inlay_value **out_value,
                                              inlay_diag *diag);

/* Does a path end in ".npy", ".pb" ...? */
bool value_has_suffix(const char *path, const char *suffix);
/* model_datum_load() for the declared type: a sparse tensor may be a SparseTensorProto or dense. */
INLAY_NODISCARD inlay_status value_datum(const char *path, const inlay_io_info *info, struct arena *arena,
                                         model_datum *out, inlay_diag *diag);
/* Reads path for an input of that kind and type: .npy (tensors), .npz (sparse tensors, maps; npz.h) or .pb
 * (TensorProto, SparseTensorProto, SequenceProto, OptionalProto, MapProto). A tensor for an optional input is wrapped.
 * Another element type is converted if nothing is lost (value_convert); bfloat16 may be stored as uint16, as in ONNX
 * test data that are older than the type. */
INLAY_NODISCARD inlay_status value_load(const char *path, const inlay_io_info *info, inlay_value **out_value,
                                        inlay_diag *diag);
/* Replaces *value by one of the declared type, if it is a tensor of another type. from is for messages.
 * INLAY_INVALID_ARGUMENT: an element would change, or the types have no common values; the message names the fix. */
INLAY_NODISCARD inlay_status value_convert(const char *from, const inlay_io_info *info, inlay_value **value,
                                           inlay_diag *diag);
/* Makes the tensor *value an optional with it, if the input is one. */
INLAY_NODISCARD inlay_status value_wrap(const inlay_io_info *info, inlay_value **value, inlay_diag *diag);
/* Checks that the argument of a flag is a readable folder or FILE.npz. */
INLAY_NODISCARD inlay_status value_source(const char *flag, const char *from, inlay_diag *diag);
/* Reads the value with the declared name from a folder, as NAME.npy, .pb or .npz, or from an archive FILE.npz, as an
 * array. *out_value is NULL if it is missing; value_missing() makes the error for that (what: "input" or "output"). */
INLAY_NODISCARD inlay_status value_load_named(const char *from, const inlay_io_info *info, inlay_value **out_value,
                                              inlay_diag *diag);
INLAY_NODISCARD inlay_status value_missing(const char *what, const char *from, const inlay_io_info *info,
                                           inlay_diag *diag);

/* Whether a tensor of type `stored` may have the bits of type `meant`, which older files cannot name. */
static inline bool value_same_bits(inlay_dtype stored, inlay_dtype meant)
{
    return stored == INLAY_UINT16 && meant == INLAY_BFLOAT16;
}

/* Writes a value in dir: a tensor as <name>.npy, if declared as sparse as <name>.pb (SparseTensorProto), a map as
 * <name>.pb (MapProto), the items of a list as <name>.0.npy and so on, an optional as its content, if any. '/' and ':'
 * in names become '_'. */
INLAY_NODISCARD inlay_status value_save(const char *dir, const inlay_io_info *info, const inlay_value *value,
                                        inlay_diag *diag);

/* "dir/name" + suffix, with '_' for '/' and ':' in the name, in the arena; NULL: out of memory. */
char *value_path(struct arena *arena, const char *dir, const char *name, const char *suffix);
/* The same for a file to read: with ':' as in the name where only that file exists. */
char *value_find(struct arena *arena, const char *dir, const char *name, const char *suffix);

/* Writes the type, for example "float[2, 3]", "sequence(4)", "optional(float[2])", truncated to fit. Returns text. */
char *value_type_text(const inlay_value *value, char *text, size_t bytes);

/* Prints one line: type, first elements (at most max of each tensor), minimum, maximum and mean; a list one line per
 * item. Returns false if an element is a NaN or an infinity. */
bool value_print(FILE *to, const char *name, const inlay_value *value, uint32_t max);
/* A number; a string for infinity and NaN, which JSON does not have. */
json_t *value_number_json(double number);
/* {"type", "shape", "values" (the first max), "min", "max", "mean", "nan"}. NaN and infinities are strings. NULL: out
 * of memory. */
json_t *value_json(const char *name, const inlay_value *value, uint32_t max);
#endif
