/* Shaders are put together here: a module holds every operation and every element type as functions of one form, and
 * calls of placeholders (slot_3, input_0, store_out). A pipeline's constants say which function stands for each; calls
 * are redirected, and functions that nobody calls any more are left out. So drivers compile a few hundred instructions
 * where a switch over constants took them seconds. Where words are given, a call of word() with a literal becomes the
 * word itself: sizes and strides are then constants to the compiler, which CPUs without a fast division thank for. */
#include "gpu.h"
#include "gpu_shaders.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Instructions of SPIR-V that are looked at; all others are copied. */
enum {
    SPV_HEADER = 5,
    SPV_SOURCE_EXTENSION = 4,
    SPV_NAME = 5,
    SPV_MEMBER_NAME = 6,
    SPV_ENTRY_POINT = 15,
    SPV_FUNCTION = 54,
    SPV_FUNCTION_END = 56,
    SPV_FUNCTION_CALL = 57,
    SPV_COPY_OBJECT = 83,
    SPV_DECORATE = 71,
    SPV_UNDEF = 1,
    SPV_FIRST_TYPE = 19,
    SPV_LAST_TYPE = 39,
    SPV_FIRST_CONSTANT = 41,
    SPV_CONSTANT = 43,
    SPV_LAST_CONSTANT = 52,
    SPV_VARIABLE = 59,
    MOST_NAME = 24
};

static const char *const operations[] = {
#define X(name) "op_" #name,
#include "opcodes.def"
#undef X
};
static const char *const types[] = {
#define X(name, text) #text,
    GPU_ELEMENTS(X)
#undef X
};

static const uint32_t OUTSIDE = UINT32_MAX;

typedef struct function {
    uint32_t id, begin, end; /* words */
    char name[MOST_NAME];    /* without parameters */
    uint32_t replaced;       /* index of the function that stands for it */
    bool kept;
} function;

typedef struct module {
    const uint32_t *words;
    uint32_t count, bound;
    function *functions;
    uint32_t function_count;
    uint32_t *function_of; /* [bound] by id: index + 1 */
    uint32_t *lives_in;    /* [bound] by id: 1 + index of the function that defines it; 0: none */
    uint32_t *literal_at;  /* [bound] by id: where the constant is defined; 0: none */
    uint32_t word_id;      /* of the function word(); 0: its calls stay */
    const uint32_t *fixed; /* what it returns */
    uint32_t fixed_count;
} module;

static uint32_t opcode_at(const module *m, uint32_t at)
{
    return m->words[at] & 0xffffu;
}
static uint32_t length_at(const module *m, uint32_t at)
{
    return m->words[at] >> 16;
}

/* ------------------------------------------------------------------ reading */

static uint32_t count_functions(const module *m)
{
    uint32_t n = 0;

    for (uint32_t at = SPV_HEADER; at < m->count; at += length_at(m, at))
        n += opcode_at(m, at) == SPV_FUNCTION;
    return n;
}

static void read_functions(module *m)
{
    function *f = NULL;

    for (uint32_t at = SPV_HEADER; at < m->count; at += length_at(m, at)) {
        if (opcode_at(m, at) == SPV_FUNCTION) {
            f = &m->functions[m->function_count++];
            *f = (function){ .id = m->words[at + 2], .begin = at, .replaced = m->function_count - 1 };
            m->function_of[f->id] = m->function_count;
        } else if (opcode_at(m, at) == SPV_FUNCTION_END && f != NULL) {
            f->end = at + 1;
        }
    }
    for (uint32_t at = SPV_HEADER; at < m->count; at += length_at(m, at)) {
        const uint32_t index = opcode_at(m, at) == SPV_NAME ? m->function_of[m->words[at + 1]] : 0;

        if (index != 0) {
            const char *name = (const char *)&m->words[at + 2];
            const size_t n = strcspn(name, "(");

            memcpy(m->functions[index - 1].name, name, n < MOST_NAME ? n : MOST_NAME - 1);
        }
    }
}

static uint32_t find(const module *m, const char *name)
{
    uint32_t i = 0;

    while (i < m->function_count && strcmp(m->functions[i].name, name) != 0)
        i++;
    return i;
}

/* ------------------------------------------------------------------ redirecting */

/* false: the shader calls one of the names and lacks the other. */
static bool redirect(module *m, const char *from, const char *to)
{
    const uint32_t f = find(m, from), t = find(m, to);

    if (f < m->function_count && t < m->function_count)
        m->functions[f].replaced = t;
    return f == m->function_count || t < m->function_count;
}

static bool redirect_all(module *m, const uint32_t *constants)
{
    char from[MOST_NAME], to[MOST_NAME];
    bool ok = true;

    for (uint32_t i = 0; i < MOST_SLOTS; i++) {
        const uint32_t op = i < constants[ID_SLOTS] ? constants[ID_SLOT + i] & 255u : 0;

        (void)snprintf(from, sizeof from, "slot_%u", i);
        (void)snprintf(to, sizeof to, "%s", op < sizeof operations / sizeof operations[0] ? operations[op] : "");
        for (char *c = to; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        ok &= redirect(m, from, to);
    }
    for (uint32_t i = 0; i < MOST_INPUTS; i++) {
        (void)snprintf(from, sizeof from, "input_%u", i);
        (void)snprintf(to, sizeof to, "load_%s", types[constants[ID_INPUT + i] & 15u]);
        ok &= redirect(m, from, to);
    }
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(from, sizeof from, "load_%c", 'a' + (int)i);
        (void)snprintf(to, sizeof to, "load_%s", types[constants[ID_LOAD + i] & 15u]);
        ok &= redirect(m, from, to);
    }
    (void)snprintf(to, sizeof to, "store_%s", types[constants[ID_OUT] & 15u]);
    return redirect(m, "store_out", to) && ok;
}

/* Marks a function and all that it calls; calls do not go in circles in SPIR-V. */
static void keep(module *m, uint32_t index)
{
    function *f = &m->functions[index];

    if (f->kept)
        return;
    f->kept = true;
    for (uint32_t at = f->begin; at < f->end; at += length_at(m, at))
        if (opcode_at(m, at) == SPV_FUNCTION_CALL && m->function_of[m->words[at + 3]] != 0)
            keep(m, m->functions[m->function_of[m->words[at + 3]] - 1].replaced);
}

/* ------------------------------------------------------------------ words that are known */

static void find_literals(module *m)
{
    const uint32_t word = find(m, "word");

    m->word_id = m->fixed != NULL && word < m->function_count ? m->functions[word].id : 0;
    for (uint32_t at = SPV_HEADER; at < m->count; at += length_at(m, at))
        if (opcode_at(m, at) == SPV_CONSTANT && length_at(m, at) == 4)
            m->literal_at[m->words[at + 2]] = at;
}

/* Is there a call of word() with a literal? */
static bool is_fixed(const module *m, uint32_t at)
{
    return m->word_id != 0 && opcode_at(m, at) == SPV_FUNCTION_CALL && m->words[at + 3] == m->word_id &&
           length_at(m, at) == 5 && m->literal_at[m->words[at + 4]] != 0;
}

/* A constant for each of these calls, in their order; ids follow those of the module. */
static uint32_t write_constants(const module *m, uint32_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < m->function_count; i++)
        for (uint32_t at = m->functions[i].begin; m->functions[i].kept && at < m->functions[i].end;
             at += length_at(m, at))
            if (is_fixed(m, at)) {
                const uint32_t k = m->words[m->literal_at[m->words[at + 4]] + 3];

                out[n++] = 4u << 16 | SPV_CONSTANT;
                out[n++] = m->words[at + 1];
                out[n++] = out[3]++; /* the bound */
                out[n++] = k < m->fixed_count ? m->fixed[k] : 0;
            }
    return n;
}

/* ------------------------------------------------------------------ writing */

/* Ids within a function are decorated outside of it. Words that are no results do no harm: what is not defined outside
 * is of one function alone. */
static void note_inner_ids(module *m)
{
    const uint32_t first = m->function_count > 0 ? m->functions[0].begin : m->count;

    for (uint32_t at = SPV_HEADER; at < first; at += length_at(m, at)) {
        const uint32_t op = opcode_at(m, at);

        if (op >= SPV_FIRST_TYPE && op <= SPV_LAST_TYPE)
            m->lives_in[m->words[at + 1]] = OUTSIDE;
        else if ((op >= SPV_FIRST_CONSTANT && op <= SPV_LAST_CONSTANT) || op == SPV_VARIABLE || op == SPV_UNDEF)
            m->lives_in[m->words[at + 2]] = OUTSIDE;
    }
    for (uint32_t i = 0; i < m->function_count; i++)
        for (uint32_t at = m->functions[i].begin; at < m->functions[i].end; at += length_at(m, at))
            if (length_at(m, at) > 2 && m->words[at + 2] < m->bound && m->lives_in[m->words[at + 2]] == 0)
                m->lives_in[m->words[at + 2]] = i + 1;
}

static uint32_t write_rest(const module *m, uint32_t *out)
{
    const uint32_t first = m->function_count > 0 ? m->functions[0].begin : m->count;
    uint32_t n = SPV_HEADER;

    memcpy(out, m->words, SPV_HEADER * sizeof *out);
    for (uint32_t at = SPV_HEADER; at < first; at += length_at(m, at)) {
        const uint32_t op = opcode_at(m, at), length = length_at(m, at);
        const uint32_t owner = op == SPV_DECORATE ? m->lives_in[m->words[at + 1]] : 0;

        if (op == SPV_NAME || op == SPV_MEMBER_NAME || op == SPV_SOURCE_EXTENSION ||
            (owner != 0 && owner != OUTSIDE && !m->functions[owner - 1].kept))
            continue;
        memcpy(out + n, m->words + at, length * sizeof *out);
        n += length;
    }
    return n;
}

static uint32_t write_functions(const module *m, uint32_t *out, uint32_t n)
{
    uint32_t next = m->bound;

    for (uint32_t i = 0; i < m->function_count; i++) {
        const function *f = &m->functions[i];

        for (uint32_t at = f->begin; f->kept && at < f->end; at += length_at(m, at)) {
            if (is_fixed(m, at)) {
                out[n++] = 4u << 16 | SPV_COPY_OBJECT;
                out[n++] = m->words[at + 1];
                out[n++] = m->words[at + 2];
                out[n++] = next++;
                continue;
            }
            memcpy(out + n, m->words + at, length_at(m, at) * sizeof *out);
            if (opcode_at(m, at) == SPV_FUNCTION_CALL && m->function_of[out[n + 3]] != 0)
                out[n + 3] = m->functions[m->functions[m->function_of[out[n + 3]] - 1].replaced].id;
            n += length_at(m, at);
        }
    }
    return n;
}

inlay_status gpu_patch(const gpu_recipe *r, uint32_t **out, uint32_t *out_words, inlay_diag *diag)
{
    module m = { .words = gpu_shaders[r->shader].words,
                 .count = (uint32_t)(gpu_shaders[r->shader].bytes / 4),
                 .fixed = r->words,
                 .fixed_count = r->word_count };
    uint32_t *words;
    inlay_status status = INLAY_OK;

    m.bound = m.words[3];
    m.functions = calloc(count_functions(&m) + 1, sizeof *m.functions);
    m.function_of = calloc(m.bound + 1, sizeof *m.function_of);
    m.lives_in = calloc(m.bound + 1, sizeof *m.lives_in);
    m.literal_at = calloc(m.bound + 1, sizeof *m.literal_at);
    words = malloc(2 * gpu_shaders[r->shader].bytes); /* a call of 5 words becomes two instructions of 4 */
    if (m.functions == NULL || m.function_of == NULL || m.lives_in == NULL || m.literal_at == NULL || words == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a shader");
        goto done;
    }
    read_functions(&m);
    if (!redirect_all(&m, r->constants)) {
        status = inlay_fail(diag, INLAY_INTERNAL, "a shader lacks an operation of its program");
        goto done;
    }
    for (uint32_t at = SPV_HEADER; at < m.count; at += length_at(&m, at))
        if (opcode_at(&m, at) == SPV_ENTRY_POINT)
            keep(&m, m.function_of[m.words[at + 2]] - 1);
    note_inner_ids(&m);
    find_literals(&m);
    *out_words = write_functions(&m, words, write_constants(&m, words, write_rest(&m, words)));
    *out = words;
    words = NULL;
done:
    free(m.functions);
    free(m.function_of);
    free(m.lives_in);
    free(m.literal_at);
    free(words);
    return status;
}
