#include "model/prescan.h"
#include "base/memory.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

/* clang-format off */
typedef enum message {
    MODEL, OPSET, ENTRY, GRAPH, NODE, ATTRIBUTE, FUNCTION, TENSOR, SPARSE_TENSOR, VALUE_INFO, TYPE, TENSOR_TYPE,
    LIST_TYPE, MAP_TYPE, SHAPE, DIM, SEQUENCE, MAP, OPTIONAL, MESSAGE_COUNT
} message;

/* How to process a field. */
typedef enum action {
    VARINT,  /* copy; must be a varint */
    VARINTS, /* copy; varints, packed or separate */
    FLOAT,   /* copy; 32 bits */
    FLOATS,  /* copy; 32 bits each, packed or separate */
    TEXT,    /* copy; must not contain a NUL, because it becomes a C string */
    BYTES,   /* copy */
    ONE,     /* scan the message of kind `child`; at most one */
    MANY,    /* scan the message of kind `child` */
    PLACE,   /* payload: replace with its place; wire type of elements in `child` */
    LIST,    /* as PLACE, but the elements are checked; consecutive fields, texts too, become one place */
    DROP     /* omit */
} action;

struct field {
    uint16_t number;
    uint8_t action;
    uint8_t child; /* message, or wire type of elements of PLACE and LIST */
    const char *name;
};

#define ENDS { 0, 0, 0, NULL }
static const struct field model_fields[] = {
    { 1, VARINT, 0, "ir_version" }, { 2, TEXT, 0, "producer_name" }, { 3, TEXT, 0, "producer_version" },
    { 4, TEXT, 0, "domain" }, { 5, VARINT, 0, "model_version" }, { 6, TEXT, 0, "doc_string" },
    { 7, ONE, GRAPH, "graph" }, { 8, MANY, OPSET, "opset_import" }, { 14, MANY, ENTRY, "metadata_props" },
    { 20, DROP, 0, "training_info" }, { 25, MANY, FUNCTION, "functions" }, ENDS
};
static const struct field opset_fields[] = { { 1, TEXT, 0, "domain" }, { 2, VARINT, 0, "version" }, ENDS };
static const struct field entry_fields[] = { { 1, TEXT, 0, "key" }, { 2, TEXT, 0, "value" }, ENDS };
static const struct field graph_fields[] = {
    { 1, MANY, NODE, "node" }, { 2, TEXT, 0, "name" }, { 5, MANY, TENSOR, "initializer" },
    { 10, TEXT, 0, "doc_string" }, { 11, MANY, VALUE_INFO, "input" }, { 12, MANY, VALUE_INFO, "output" },
    { 13, MANY, VALUE_INFO, "value_info" }, { 15, MANY, SPARSE_TENSOR, "sparse_initializer" }, ENDS
};
static const struct field node_fields[] = {
    { 1, TEXT, 0, "input" }, { 2, TEXT, 0, "output" }, { 3, TEXT, 0, "name" }, { 4, TEXT, 0, "op_type" },
    { 5, MANY, ATTRIBUTE, "attribute" }, { 6, TEXT, 0, "doc_string" }, { 7, TEXT, 0, "domain" },
    { 8, TEXT, 0, "overload" }, ENDS
};
static const struct field attribute_fields[] = {
    { 1, TEXT, 0, "name" }, { 2, FLOAT, 0, "f" }, { 3, VARINT, 0, "i" }, { 4, BYTES, 0, "s" },
    { 5, ONE, TENSOR, "t" }, { 6, ONE, GRAPH, "g" }, { 7, LIST, WIRE_32, "floats" },
    { 8, LIST, WIRE_VARINT, "ints" }, { 9, LIST, WIRE_BYTES, "strings" }, { 10, MANY, TENSOR, "tensors" },
    { 11, MANY, GRAPH, "graphs" },
    { 14, ONE, TYPE, "tp" }, { 15, MANY, TYPE, "type_protos" }, { 20, VARINT, 0, "type" },
    { 21, TEXT, 0, "ref_attr_name" }, { 22, ONE, SPARSE_TENSOR, "sparse_tensor" },
    { 23, MANY, SPARSE_TENSOR, "sparse_tensors" }, { 1000, DROP, 0, "place" }, ENDS
};
static const struct field function_fields[] = {
    { 1, TEXT, 0, "name" }, { 4, TEXT, 0, "input" }, { 5, TEXT, 0, "output" }, { 6, TEXT, 0, "attribute" },
    { 7, MANY, NODE, "node" }, { 8, TEXT, 0, "doc_string" }, { 9, MANY, OPSET, "opset_import" },
    { 10, TEXT, 0, "domain" }, { 11, MANY, ATTRIBUTE, "attribute_proto" }, { 12, MANY, VALUE_INFO, "value_info" },
    { 13, TEXT, 0, "overload" }, ENDS
};
static const struct field tensor_fields[] = {
    { 1, VARINTS, 0, "dims" }, { 2, VARINT, 0, "data_type" }, { 4, PLACE, WIRE_32, "float_data" },
    { 5, PLACE, WIRE_VARINT, "int32_data" }, { 6, PLACE, WIRE_BYTES, "string_data" },
    { 7, PLACE, WIRE_VARINT, "int64_data" }, { 8, TEXT, 0, "name" }, { 9, PLACE, WIRE_BYTES, "raw_data" },
    { 10, PLACE, WIRE_64, "double_data" }, { 11, PLACE, WIRE_VARINT, "uint64_data" }, { 12, TEXT, 0, "doc_string" },
    { 13, MANY, ENTRY, "external_data" }, { 14, VARINT, 0, "data_location" },
    { 1000, DROP, 0, "place" }, /* written by the prescan only: a file must not contain positions */
    ENDS
};
static const struct field sparse_tensor_fields[] = {
    { 1, ONE, TENSOR, "values" }, { 2, ONE, TENSOR, "indices" }, { 3, VARINTS, 0, "dims" }, ENDS
};
static const struct field value_info_fields[] = {
    { 1, TEXT, 0, "name" }, { 2, ONE, TYPE, "type" }, { 3, TEXT, 0, "doc_string" }, ENDS
};
static const struct field type_fields[] = {
    { 1, ONE, TENSOR_TYPE, "tensor_type" }, { 4, ONE, LIST_TYPE, "sequence_type" }, { 5, ONE, MAP_TYPE, "map_type" },
    { 6, TEXT, 0, "denotation" }, { 8, ONE, TENSOR_TYPE, "sparse_tensor_type" },
    { 9, ONE, LIST_TYPE, "optional_type" }, ENDS
};
static const struct field tensor_type_fields[] = { { 1, VARINT, 0, "elem_type" }, { 2, ONE, SHAPE, "shape" }, ENDS };
static const struct field list_type_fields[] = { { 1, ONE, TYPE, "elem_type" }, ENDS };
static const struct field map_type_fields[] = { { 1, VARINT, 0, "key_type" }, { 2, ONE, TYPE, "value_type" }, ENDS };
static const struct field shape_fields[] = { { 1, MANY, DIM, "dim" }, ENDS };
static const struct field dim_fields[] = {
    { 1, VARINT, 0, "dim_value" }, { 2, TEXT, 0, "dim_param" }, { 3, TEXT, 0, "denotation" }, ENDS
};
static const struct field sequence_fields[] = {
    { 1, TEXT, 0, "name" }, { 2, VARINT, 0, "elem_type" }, { 3, MANY, TENSOR, "tensor_values" },
    { 4, MANY, SPARSE_TENSOR, "sparse_tensor_values" }, { 5, MANY, SEQUENCE, "sequence_values" },
    { 6, MANY, MAP, "map_values" }, { 7, MANY, OPTIONAL, "optional_values" }, ENDS
};
static const struct field map_fields[] = {
    { 1, TEXT, 0, "name" }, { 2, VARINT, 0, "key_type" }, { 3, VARINTS, 0, "keys" }, { 4, BYTES, 0, "string_keys" },
    { 5, ONE, SEQUENCE, "values" }, ENDS
};
static const struct field optional_fields[] = {
    { 1, TEXT, 0, "name" }, { 2, VARINT, 0, "elem_type" }, { 3, ONE, TENSOR, "tensor_value" },
    { 4, ONE, SPARSE_TENSOR, "sparse_tensor_value" }, { 5, ONE, SEQUENCE, "sequence_value" },
    { 6, ONE, MAP, "map_value" }, { 7, ONE, OPTIONAL, "optional_value" }, ENDS
};

/* clang-format on */

static const struct {
    const char *name;
    const struct field *fields;
} messages[MESSAGE_COUNT] = {
    [MODEL] = { "ModelProto", model_fields },
    [OPSET] = { "OperatorSetIdProto", opset_fields },
    [ENTRY] = { "StringStringEntryProto", entry_fields },
    [GRAPH] = { "GraphProto", graph_fields },
    [NODE] = { "NodeProto", node_fields },
    [ATTRIBUTE] = { "AttributeProto", attribute_fields },
    [FUNCTION] = { "FunctionProto", function_fields },
    [TENSOR] = { "TensorProto", tensor_fields },
    [SPARSE_TENSOR] = { "SparseTensorProto", sparse_tensor_fields },
    [VALUE_INFO] = { "ValueInfoProto", value_info_fields },
    [TYPE] = { "TypeProto", type_fields },
    [TENSOR_TYPE] = { "TypeProto.Tensor", tensor_type_fields },
    [LIST_TYPE] = { "TypeProto.Sequence", list_type_fields },
    [MAP_TYPE] = { "TypeProto.Map", map_type_fields },
    [SHAPE] = { "TensorShapeProto", shape_fields },
    [DIM] = { "TensorShapeProto.Dimension", dim_fields },
    [SEQUENCE] = { "SequenceProto", sequence_fields },
    [MAP] = { "MapProto", map_fields },
    [OPTIONAL] = { "OptionalProto", optional_fields },
};

static const struct field *find_field(message kind, uint64_t number)
{
    const struct field *field = messages[kind].fields;

    while (field->number != 0 && field->number != number)
        field++;
    return field->number == 0 ? NULL : field;
}

enum { DEPTH_CAP = 1000, LENGTH_BYTES = 5 };

struct frame {
    const uint8_t *end;        /* of the message in the file */
    size_t length_at;          /* position of its length in the output */
    uint64_t seen;             /* one bit for each field of action ONE */
    const uint8_t *tagged_end; /* end of the last run of tagged elements, which may be extended */
    size_t tagged_at;          /* position of the run's length in the output */
    uint16_t tagged_field;
    uint8_t kind; /* message */
};

struct scan {
    const uint8_t *file;
    const uint8_t *at;
    const model_limits *limits;
    inlay_diag *diag;
    uint8_t *out;
    size_t out_count;
    uint64_t nodes, tensors, values, items, list_bytes;
    uint32_t depth, graph_depth;
    struct frame *stack; /* [limits->depth] */
};

static inlay_status fail_at(const struct scan *scan, const uint8_t *at, const char *name, const char *text)
{
    const char *kind = scan->depth > 0 ? messages[scan->stack[scan->depth - 1].kind].name : "";

    return inlay_fail(scan->diag, INLAY_INVALID_MODEL, "byte %zu, %s%s%s: %s", (size_t)(at - scan->file), kind,
                      name[0] == '\0' ? "" : ".", name, text);
}

static inlay_status fail_limit(const struct scan *scan, const char *limit, uint64_t value)
{
    return inlay_fail(scan->diag, INLAY_LIMIT_EXCEEDED,
                      "byte %zu: the model exceeds model_limits %s (%llu); raise it if you trust the file",
                      (size_t)(scan->at - scan->file), limit, (unsigned long long)value);
}

static inlay_status reserve(struct scan *scan, size_t more)
{
    size_t wanted = scan->out_count;

    if (__builtin_add_overflow(wanted, more, &wanted) || wanted > scan->limits->parsed_bytes)
        return fail_limit(scan, "parsed_bytes", scan->limits->parsed_bytes);
    return list_reserve(&scan->out, scan->out_count, more, 1)
               ? INLAY_OK
               : no_memory(scan->diag, "for the parsed form (%zu bytes)", list_room(wanted));
}

static inlay_status put(struct scan *scan, const void *bytes, size_t count)
{
    inlay_status status = reserve(scan, count);

    if (status == INLAY_OK && count > 0) {
        memcpy(scan->out + scan->out_count, bytes, count);
        scan->out_count += count;
    }
    return status;
}

static void store_length(uint8_t *to, size_t length)
{
    for (int i = 0; i < LENGTH_BYTES; i++, length >>= 7)
        to[i] = (uint8_t)((length & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80u : 0));
}

static inlay_status put_place(struct scan *scan, uint64_t number, const uint8_t *from, size_t bytes)
{
    uint64_t place[3] = { number, (uint64_t)(from - scan->file), bytes };
    enum { TAG = 1000 << 3 | WIRE_BYTES };
    const uint8_t head[3] = { (TAG & 0x7f) | 0x80, TAG >> 7, sizeof place };
    inlay_status status = put(scan, head, sizeof head);

    return status == INLAY_OK ? put(scan, place, sizeof place) : status;
}

/* A single element with its tag: extends the run before it, or begins a new run. */
static inlay_status put_tagged(struct scan *scan, const struct field *field, const uint8_t *tag, const uint8_t *end)
{
    struct frame *top = &scan->stack[scan->depth - 1];

    if (top->tagged_field == field->number && top->tagged_end == tag) {
        uint64_t bytes;

        INLAY_CHECK(top->tagged_at + sizeof bytes <= scan->out_count);
        memcpy(&bytes, scan->out + top->tagged_at, sizeof bytes);
        bytes += (uint64_t)(end - tag);
        memcpy(scan->out + top->tagged_at, &bytes, sizeof bytes);
    } else {
        inlay_status status = put_place(scan, field->number | PRESCAN_TAGGED, tag, (size_t)(end - tag));

        if (status != INLAY_OK)
            return status;
        top->tagged_at = scan->out_count - sizeof(uint64_t);
        top->tagged_field = field->number;
    }
    top->tagged_end = end;
    return INLAY_OK;
}

static inlay_status count_message(struct scan *scan, message kind)
{
    if (kind == NODE && ++scan->nodes > scan->limits->nodes)
        return fail_limit(scan, "nodes", scan->limits->nodes);
    scan->tensors += kind == TENSOR;
    if ((kind == TENSOR || kind == VALUE_INFO) && ++scan->values > scan->limits->values)
        return fail_limit(scan, "values", scan->limits->values);
    if (kind == GRAPH && ++scan->graph_depth > scan->limits->subgraphs)
        return fail_limit(scan, "subgraphs", scan->limits->subgraphs);
    return INLAY_OK;
}

static inlay_status push(struct scan *scan, message kind, const uint8_t *end, size_t length_at)
{
    if (scan->depth == scan->limits->depth || scan->depth == DEPTH_CAP)
        return fail_limit(scan, "depth", scan->depth);
    scan->stack[scan->depth++] = (struct frame){ .end = end, .length_at = length_at, .kind = (uint8_t)kind };
    return count_message(scan, kind);
}

/* Writes the tag and reserves five bytes for the length, which leave() fills in. */
static inlay_status enter(struct scan *scan, const struct field *field, const uint8_t *tag, const uint8_t *end)
{
    static const uint8_t room[LENGTH_BYTES];
    struct frame *top = &scan->stack[scan->depth - 1];
    const uint8_t *tag_end = tag;
    uint64_t ignored;
    inlay_status status;

    if (field->action == ONE) {
        INLAY_CHECK(field->number < 64);
        if (top->seen >> field->number & 1)
            return fail_at(scan, tag, field->name, "occurs twice; it may occur once");
        top->seen |= UINT64_C(1) << field->number;
    }
    (void)wire_varint(&tag_end, end, &ignored);
    status = put(scan, tag, (size_t)(tag_end - tag));
    if (status == INLAY_OK)
        status = put(scan, room, sizeof room);
    return status == INLAY_OK ? push(scan, (message)field->child, end, scan->out_count - LENGTH_BYTES) : status;
}

static void leave(struct scan *scan)
{
    struct frame *top;

    INLAY_CHECK(scan->depth > 0);
    top = &scan->stack[--scan->depth];
    INLAY_CHECK(top->kind != GRAPH || scan->graph_depth > 0);
    if (top->kind == GRAPH)
        scan->graph_depth--;
    if (scan->depth > 0)
        store_length(scan->out + top->length_at, scan->out_count - top->length_at - LENGTH_BYTES);
}

/* Is the wire type valid for the field? Packed lists have wire type bytes. */
static bool wire_type_fits(const struct field *field, unsigned wire)
{
    switch ((action)field->action) {
    case VARINT:
        return wire == WIRE_VARINT;
    case VARINTS:
        return wire == WIRE_VARINT || wire == WIRE_BYTES;
    case FLOAT:
        return wire == WIRE_32;
    case FLOATS:
        return wire == WIRE_32 || wire == WIRE_BYTES;
    case PLACE:
    case LIST:
        return wire == field->child || wire == WIRE_BYTES;
    case TEXT:
    case BYTES:
    case ONE:
    case MANY:
        return wire == WIRE_BYTES;
    case DROP:
        break;
    }
    return true;
}

/* Do packed varints or floats end exactly at the end of the field? */
static bool packed_is_whole(const struct field *field, const uint8_t *from, const uint8_t *end)
{
    uint64_t ignored;

    if (field->action == FLOATS || field->child == WIRE_32)
        return (end - from) % 4 == 0;
    while (from < end)
        if (!prescan_short(&from, end, &ignored))
            return false;
    return true;
}

/* Processes elements of a list. */
static inlay_status scan_list(struct scan *scan, const struct field *field, unsigned wire, const uint8_t *tag,
                              const uint8_t *payload)
{
    const bool packed = wire == WIRE_BYTES && field->child != WIRE_BYTES;

    if (packed && !packed_is_whole(field, payload, scan->at))
        return fail_at(scan, payload, field->name, "the packed list ends in the middle of a number");
    if (!packed && *tag < 0x80 && scan->at < scan->stack[scan->depth - 1].end && *scan->at == *tag)
        scan->items += prescan_run(&scan->at, scan->stack[scan->depth - 1].end, wire);
    scan->list_bytes += (uint64_t)(scan->at - tag);
    if (scan->list_bytes + scan->out_count > scan->limits->parsed_bytes)
        return fail_limit(scan, "parsed_bytes", scan->limits->parsed_bytes);
    return packed ? put_place(scan, field->number, payload, (size_t)(scan->at - payload))
                  : put_tagged(scan, field, tag, scan->at);
}

/* Processes the field with the given tag and payload (after the length, if any), which ends at scan->at. */
static inlay_status scan_payload(struct scan *scan, const struct field *field, unsigned wire, const uint8_t *tag,
                                 const uint8_t *payload)
{
    const uint8_t *end = scan->at;

    if (field == NULL)
        return put(scan, tag, (size_t)(end - tag));
    if (!wire_type_fits(field, wire))
        return fail_at(scan, tag, field->name,
                       scan->depth == 1 ? "has the wrong wire type; the file is damaged or not an ONNX model"
                                        : "has the wrong wire type");
    switch ((action)field->action) {
    case TEXT:
        if (end > payload && memchr(payload, '\0', (size_t)(end - payload)) != NULL)
            return fail_at(scan, payload, field->name, "contains a NUL byte; names and texts must not");
        break;
    case VARINTS:
    case FLOATS:
        if (wire == WIRE_BYTES && !packed_is_whole(field, payload, end))
            return fail_at(scan, payload, field->name, "the packed list ends in the middle of a number");
        break;
    case ONE:
    case MANY:
        scan->at = payload;
        return enter(scan, field, tag, end);
    case PLACE:
        return wire == WIRE_BYTES ? put_place(scan, field->number, payload, (size_t)(end - payload))
                                  : put_tagged(scan, field, tag, end);
    case LIST:
        return scan_list(scan, field, wire, tag, payload);
    case DROP:
        return INLAY_OK;
    case VARINT:
    case FLOAT:
    case BYTES:
        break;
    }
    return put(scan, tag, (size_t)(end - tag));
}

/* Says why the field at scan->at cannot be read. */
static inlay_status fail_field(const struct scan *scan, wire_fault fault, const wire_field *found)
{
    static const char *const texts[] = {
        [WIRE_BAD_KEY] = "not a field; the file is damaged or not an ONNX model",
        [WIRE_BAD_TYPE] = "has a wire type that ONNX does not use; the file is damaged or not an ONNX model",
        [WIRE_CUT_NUMBER] = "a number extends beyond the end of the message",
        [WIRE_CUT_LENGTH] = "the length extends beyond the end of the message"
    };
    const struct frame *top = &scan->stack[scan->depth - 1];
    const struct field *field = find_field((message)top->kind, found->number);
    char text[160];

    if (fault == WIRE_CUT_DATA)
        (void)snprintf(text, sizeof text,
                       "has length %llu, but the message has only %zu bytes left; the file is truncated or damaged",
                       (unsigned long long)found->value, found->data.count);
    return fail_at(scan, scan->at, field == NULL ? "" : field->name, fault == WIRE_CUT_DATA ? text : texts[fault]);
}

/* Scans the next field of the innermost message. */
static inlay_status scan_field(struct scan *scan)
{
    const struct frame *top = &scan->stack[scan->depth - 1];
    wire_span rest = { scan->at, (size_t)(top->end - scan->at) };
    wire_fault fault;
    wire_field found;

    if (++scan->items / 8 > scan->limits->values)
        return fail_limit(scan, "values", scan->limits->values);
    fault = wire_read(&rest, &found);
    if (fault != WIRE_OK)
        return fail_field(scan, fault, &found);
    scan->at = rest.at;
    return scan_payload(scan, find_field((message)top->kind, found.number), found.type, found.whole.at, found.data.at);
}

inlay_status prescan(const void *file, size_t bytes, prescan_root root, const model_limits *limits, prescan_result *out,
                     inlay_diag *diag)
{
    static const message roots[] = {
        [PRESCAN_MODEL] = MODEL,       [PRESCAN_TENSOR] = TENSOR, [PRESCAN_SEQUENCE] = SEQUENCE,
        [PRESCAN_OPTIONAL] = OPTIONAL, [PRESCAN_MAP] = MAP,       [PRESCAN_SPARSE] = SPARSE_TENSOR
    };
    uint32_t depth = limits->depth < DEPTH_CAP ? (uint32_t)limits->depth : DEPTH_CAP;
    const uint8_t *first = file == NULL ? (const uint8_t *)"" : file; /* an empty file is not mapped */
    struct scan scan = { .file = first, .at = first, .limits = limits, .diag = diag };
    inlay_status status;

    *out = (prescan_result){ 0 };
    scan.stack = calloc((size_t)depth + 1, sizeof *scan.stack);
    if (scan.stack == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    status = reserve(&scan, 1); /* an empty message needs a buffer, too */
    if (status == INLAY_OK)
        status = push(&scan, roots[root], scan.file + bytes, 0);
    while (status == INLAY_OK && scan.depth > 0) {
        if (scan.at == scan.stack[scan.depth - 1].end)
            leave(&scan);
        else
            status = scan_field(&scan);
    }
    free(scan.stack);
    if (status != INLAY_OK) {
        free(scan.out);
        return status;
    }
    *out = (prescan_result){
        .bytes = scan.out, .count = scan.out_count, .node_count = scan.nodes, .tensor_count = scan.tensors
    };
    return INLAY_OK;
}
