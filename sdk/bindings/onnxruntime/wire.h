/* wire.h - ONNX's wire format (protobuf): writes models that programs build, and finds fields of messages, which
 * kit/wire.h reads. Field numbers are those of onnx.proto. */
#ifndef ORT_WIRE_H
#define ORT_WIRE_H
#include "ort.h"
#include "writer.h"

/* An attribute of a node. */
void ort_put_attr(ort_writer *node, const OrtOpAttr *attribute);
/* A TensorProto with the elements of a tensor in host memory. */
void ort_put_tensor(ort_writer *writer, uint32_t field, const char *name, const OrtValue *value);
/* A TypeProto. */
void ort_put_type(ort_writer *writer, uint32_t field, const OrtTypeInfo *type);

/* Writes a model again, with its initializers where `locate` says; *out_data is from malloc. In locations.c. */
OrtStatus *ort_locations_apply(OrtGetInitializerLocationFunc locate, void *state, const void *data, size_t bytes,
                               void **out_data, size_t *out_bytes);

/* Finds the last field of that number in a message; false: none. */
bool ort_find_field(wire_span message, uint32_t number, wire_field *out);
/* Appends the dims in a field TENSOR_DIMS of a TensorProto, which is packed or not. *rank also counts those beyond
 * INLAY_MAX_RANK, which are not stored. False: the field is malformed. */
bool ort_read_dims(const wire_field *field, int64_t dims[INLAY_MAX_RANK], size_t *rank);
#endif
