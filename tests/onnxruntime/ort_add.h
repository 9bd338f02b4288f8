/* ort_add.h - the model y = x + b and sessions of it, for the tests of sessions and runs. */
#ifndef ORT_ADD_H
#define ORT_ADD_H
#include "ort_test.h"

enum { FLOAT = 1, INT64 = 7, STRING = 8 };

/* y = x + b, x [N,2], b a default that may be overridden; with metadata. */
static inline void write_add(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", FLOAT, "N,2");
    mw_value(wire, MW_INPUT, "b", FLOAT, "2");
    mw_ones(wire, "b", 2);
    mw_node(wire, "Add", "x,b", "y");
    mw_node(wire, "Neg", "y", "z");
    mw_value(wire, MW_OUTPUT, "y", FLOAT, "N,2");
    mw_value(wire, MW_OUTPUT, "z", FLOAT, "N,2");
    wire_text(wire, 10, "adds b to rows");
    wire_end(wire, mark);
    wire_text(wire, 2, "a maker");
    wire_text(wire, 4, "com.example");
    wire_int(wire, 5, 42);
    wire_text(wire, 6, "adds");
    mw_entry(wire, 14, "author", "an author");
    mw_entry(wire, 14, "licence", "none");
}

static inline OrtSession *open_add(const OrtSessionOptions *options)
{
    struct wire wire = { 0 };
    OrtSession *session;

    write_add(&wire);
    session = session_of(&wire, options);
    free(wire.bytes);
    return session;
}

static inline void check_sum(OrtSession *session, int64_t rows)
{
    const int64_t dims[] = { rows, 2 };
    float *data = calloc((size_t)rows * 2, sizeof *data);
    OrtValue *value, *y;
    void *elements;

    for (int64_t i = 0; i < rows * 2; i++)
        data[i] = (float)i;
    value = tensor(FLOAT, dims, 2, data, (size_t)rows * 2 * sizeof *data);
    y = run1(session, "x", value, "y");
    ok(api->GetTensorMutableData(y, &elements));
    for (int64_t i = 0; i < rows * 2; i++)
        assert_float_equal(((float *)elements)[i], (float)i + 1, 0);
    api->ReleaseValue(value);
    api->ReleaseValue(y);
    free(data);
}

#endif
