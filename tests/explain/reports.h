/* reports.h - reports of a session as text and as JSON, and chains of nodes to report on. */
#ifndef REPORTS_H
#define REPORTS_H
#include "cmocka_all.h"
#include "rig.h"
#include "text_buffer.h"
#include <jansson.h>

static inline struct text_buffer explain(const inlay_session *session, inlay_explain_options options)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct text_buffer output = { 0 };

    options.struct_size = sizeof options;
    if (inlay_session_explain(session, &options, text_buffer_append, &output, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return output;
}

static inline json_t *explain_json(const inlay_session *session, inlay_explain_options options)
{
    json_error_t error;
    json_t *value;
    struct text_buffer output;

    options.format = "json";
    output = explain(session, options);
    value = json_loadb(output.data, output.bytes, 0, &error);
    if (value == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    text_buffer_free(&output);
    return value;
}

static inline double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static inline void named_node(struct wire *wire, const char *op, const char *inputs, const char *outputs,
                              const char *name)
{
    wire_mark mark = mw_node_begin(wire, op, inputs, outputs);

    wire_text(wire, 3, name);
    wire_end(wire, mark);
}

/* Writes a chain x -> Relu -> Neg -> ... -> y of count nodes. */
static inline void write_chain(struct wire *wire, uint32_t count, const char *dims)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, dims);
    for (uint32_t i = 0; i < count; i++) {
        char from[32] = "x", to[32] = "y", name[32];

        if (i > 0)
            (void)snprintf(from, sizeof from, "t%u", i);
        if (i + 1 < count)
            (void)snprintf(to, sizeof to, "t%u", i + 1);
        (void)snprintf(name, sizeof name, "node_%u", i);
        named_node(wire, i % 2 == 0 ? "Relu" : "Neg", from, to, name);
    }
    mw_value(wire, MW_OUTPUT, count > 0 ? "y" : "x", INLAY_FLOAT, dims);
    wire_end(wire, mark);
}

static inline struct rig chain_of(uint32_t count, const char *dims, const char *const *options)
{
    struct wire wire = { 0 };

    write_chain(&wire, count, dims);
    return rig_open(&wire, options);
}
#endif
