/* Shaders are put together here: a module holds every operation and every element type as functions of one form, and
 * calls of placeholders (slot_3, input_0, store_out). A pipeline's constants say which function stands for each: calls
 * are redirected. Drivers leave alone what nobody calls: they compile a few hundred instructions where a switch over
 * constants took them seconds. Where words are given, a call of word() with a literal becomes the word itself: sizes
 * and strides are then constants to the compiler, which CPUs without a fast division thank for. */
#include "gpu.h"
#include "gpu_shaders.inc" /* generated: an array a shader */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Instructions of SPIR-V that are looked at; all others stay as they are. */
enum {
    SPV_HEADER = 5,
    SPV_NOP = 0,
    SPV_NAME = 5,
    SPV_CONSTANT = 43,
    SPV_FUNCTION = 54,
    SPV_FUNCTION_CALL = 57,
    SPV_COPY_OBJECT = 83,
    MOST_NAME = 24
};

static const struct {
    const uint32_t *words;
    size_t bytes;
} shaders[] = {
#define X(name, source, defines) { shader_##name, sizeof shader_##name },
#include "shaders.def"
#undef X
};

uint64_t gpu_shaders_hash(void)
{
    uint64_t sum = 14695981039346656037u; /* FNV-1a, by words */

    for (uint32_t i = 0; i < SHADER_COUNT; i++)
        for (size_t k = 0; k < shaders[i].bytes / 4; k++)
            sum = (sum ^ shaders[i].words[k]) * 1099511628211u;
    return sum;
}

static const char *const operations[] = {
#define X(name) "op_" #name,
#include "opcodes.def"
#undef X
};
#define LOAD(name, text) "load_" #text,
#define STORE(name, text) "store_" #text,
static const char *const loads[] = { GPU_ELEMENTS(LOAD) }, *const stores[] = { GPU_ELEMENTS(STORE) };

struct module {
    uint32_t *words;      /* a copy, changed in place */
    uint32_t count, body; /* words; the first function */
    uint32_t *stands_for; /* [bound] by the id of a function: which is called in its place; 0: itself */
    uint32_t *literal_at; /* [bound] by the id of a constant of 32 bits: where it is; 0: none */
    uint32_t *known;      /* [bound] by the id of a literal: the word of that number as a constant; 0: none yet */
};

static uint32_t opcode_at(const struct module *m, uint32_t at)
{
    return m->words[at] & 0xffffu;
}
static uint32_t length_at(const struct module *m, uint32_t at)
{
    return m->words[at] >> 16;
}

/* The id of the function of that name, written in small letters or not; 0: there is none. */
static uint32_t find(const struct module *m, const char *name)
{
    const size_t n = strlen(name);

    for (uint32_t at = SPV_HEADER; at < m->body; at += length_at(m, at))
        if (opcode_at(m, at) == SPV_NAME) {
            const char *text = (const char *)&m->words[at + 2];

            if (strncasecmp(text, name, n) == 0 && text[n] == '(')
                return m->words[at + 1];
        }
    return 0;
}

/* false: the shader calls one of the names and lacks the other. */
static bool redirect(struct module *m, const char *from, const char *to)
{
    const uint32_t f = find(m, from), t = find(m, to);

    m->stands_for[f] = t;
    return f == 0 || t != 0;
}

static bool redirect_all(struct module *m, const uint32_t *constants)
{
    char from[MOST_NAME];
    bool ok = true;

    for (uint32_t i = 0; i < constants[ID_SLOTS]; i++) {
        const uint32_t op = constants[ID_SLOT + i] & 255u;

        (void)snprintf(from, sizeof from, "slot_%u", i);
        ok &= redirect(m, from, op < sizeof operations / sizeof operations[0] ? operations[op] : "");
    }
    for (uint32_t i = 0; i < MOST_INPUTS; i++) {
        (void)snprintf(from, sizeof from, "input_%u", i);
        ok &= redirect(m, from, loads[constants[ID_INPUT + i] & 15u]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(from, sizeof from, "load_%c", 'a' + (int)i);
        ok &= redirect(m, from, loads[constants[ID_LOAD + i] & 15u]);
    }
    return redirect(m, "store_out", stores[constants[ID_OUT] & 15u]) && ok;
}

/* Finds where functions begin, and the literals. */
static void read_module(struct module *m)
{
    uint32_t at = SPV_HEADER;

    for (; at < m->count && opcode_at(m, at) != SPV_FUNCTION; at += length_at(m, at))
        if (opcode_at(m, at) == SPV_CONSTANT && length_at(m, at) == 4)
            m->literal_at[m->words[at + 2]] = at;
    m->body = at;
}

/* Calls go to what stands for a function, and those of word() with a literal become constants, which are written to
 * out; how many words that are is returned. */
static uint32_t change_calls(struct module *m, const gpu_recipe *r, uint32_t *out)
{
    const uint32_t word = r->words != NULL ? find(m, "word") : 0;
    uint32_t n = 0;

    for (uint32_t at = m->body, length; at < m->count; at += length) {
        uint32_t *call = &m->words[at], literal;

        length = length_at(m, at);
        if (opcode_at(m, at) != SPV_FUNCTION_CALL)
            continue;
        literal = call[3] == word && word != 0 ? m->literal_at[call[4]] : 0;
        if (m->stands_for[call[3]] != 0)
            call[3] = m->stands_for[call[3]];
        if (literal == 0)
            continue;
        if (m->known[call[4]] == 0) {
            const uint32_t k = m->words[literal + 3];

            m->known[call[4]] = m->words[3]++; /* the bound */
            out[n++] = 4u << 16 | SPV_CONSTANT;
            out[n++] = call[1];
            out[n++] = m->known[call[4]];
            out[n++] = k < r->word_count ? r->words[k] : 0;
        }
        call[0] = 4u << 16 | SPV_COPY_OBJECT;
        call[3] = m->known[call[4]];
        call[4] = 1u << 16 | SPV_NOP;
    }
    return n;
}

inlay_status gpu_patch(const gpu_recipe *r, uint32_t **out, uint32_t *out_words, inlay_diag *diag)
{
    const uint32_t *from = shaders[r->shader].words, bound = from[3];
    struct module m = { .count = (uint32_t)(shaders[r->shader].bytes / 4) };
    const size_t most = m.count + 4 * (size_t)bound; /* a constant a literal */
    uint32_t *tables = calloc(3 * (size_t)bound, sizeof *tables), *constants = malloc(most * sizeof *constants);
    inlay_status status = INLAY_OK;

    *out = m.words = malloc(most * sizeof *m.words);
    if (tables == NULL || constants == NULL || m.words == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a shader");
        goto done;
    }
    memcpy(m.words, from, shaders[r->shader].bytes);
    m.stands_for = tables;
    m.literal_at = tables + bound;
    m.known = tables + 2 * (size_t)bound;
    read_module(&m);
    if (redirect_all(&m, r->constants)) {
        const uint32_t n = change_calls(&m, r, constants);

        memmove(m.words + m.body + n, m.words + m.body, (m.count - m.body) * sizeof *m.words);
        memcpy(m.words + m.body, constants, n * sizeof *constants);
        *out_words = m.count + n;
    } else {
        status = inlay_fail(diag, INLAY_INTERNAL, "a shader lacks an operation of its program");
    }
done:
    if (status != INLAY_OK)
        free(m.words);
    free(tables);
    free(constants);
    return status;
}
