/* texts/chat/tools.h - the tools of a request: which there are, and their calls in the text of a model. */
#ifndef TEXTS_TOOLS_H
#define TEXTS_TOOLS_H
#include "base/strbuf.h"
#include "texts/chat/body.h"
#include "texts/chat/tool_form.h"
#include "texts/grammar/grammar.h"

enum { MAX_TOOLS = 128, TOOL_NAME_BYTES = 65 };

typedef enum tool_choice { TOOLS_AUTO, TOOLS_NONE, TOOLS_REQUIRED } tool_choice;

struct tool {
    const char *name;
    json_t *parameters; /* a schema; NULL: there are none */
    bool strict, allowed;
};

typedef struct tool_set {
    json_t *list;  /* owned; as templates take them; NULL: there are no tools */
    json_t *given; /* as the request has them; NULL: none */
    json_t *given_choice;
    struct tool tools[MAX_TOOLS]; /* [count]; their names are in `list` */
    uint32_t count;
    tool_choice choice;
    bool single;            /* at most one call */
    uint32_t loose_count;   /* of `warnings`: tools whose schemas are not obeyed */
    struct strbuf warnings; /* texts of JSON, with commas between them */
} tool_set;

/* flat: the members of the function are those of the tool, as in /v1/responses. false: *error names the place. */
bool tool_set_read(tool_set *set, json_t *value, bool flat, body_error *error);
/* "none", "auto", "required", a function, or allowed tools; after the tools were read. */
bool tool_set_choose(tool_set *set, json_t *value, body_error *error);
/* Whether the model may call a tool. */
bool tool_set_is_used(const tool_set *set);
/* The texts of calls of the allowed tools. A tool that is not strict and whose schema cannot be obeyed takes any
 * object, which is a warning. NULL: *error says why. */
struct grammar *tool_set_grammar(tool_set *set, const tool_form *form, body_error *error);
void tool_set_warn(tool_set *set, const char *text);
/* Adds the member "warnings" and a comma to a reply, if there are any. */
void tool_set_write_warnings(const tool_set *set, struct strbuf *to);
void tool_set_deinit(tool_set *set);

typedef struct tool_call {
    char name[TOOL_NAME_BYTES], id[40];
    bool named;              /* the name is complete */
    struct strbuf arguments; /* JSON */
    size_t sent;             /* bytes of the arguments that events have */
    bool began;              /* an event of it was written */
} tool_call;

typedef enum tool_part { READ_LEAD, READ_NAME, READ_MIDDLE, READ_ARGUMENTS, READ_AFTER } tool_part;

/* Reads texts of the grammar. */
typedef struct tool_reader {
    const tool_form *form;
    tool_part part;
    char pending[TOOL_PART_BYTES]; /* [pending_bytes] of the part, without white space */
    size_t pending_bytes;
    uint32_t depth; /* open brackets of the arguments */
    bool quoted, escaped;
    tool_call *calls; /* [count], owned */
    uint32_t count;
    bool failed; /* out of memory */
} tool_reader;

/* seed: for the ids of calls, different for each text. */
void tool_reader_add(tool_reader *reader, const char *text, size_t bytes, uint64_t seed);
void tool_reader_deinit(tool_reader *reader);
#endif
