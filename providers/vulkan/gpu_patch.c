/* Links shaders. A module contains every operation and element type as a function, and calls of placeholder functions
 * (slot_3, input_0, store_out). The constants of a pipeline select the function of each placeholder; the calls of the
 * placeholder are redirected to that function. Drivers skip functions that are never called, so they compile only a few
 * hundred instructions; compiling a switch over specialization constants took seconds instead. If the pipeline key has
 * words, each call of word() with a literal is replaced by a constant. Sizes and strides are then compile-time
 * constants, which avoids the slow integer divisions of CPUs. */
#include "inlay/check.h"
#include "vulkan/gpu.h"
#include "gpu_shaders.inc" /* generated: one array per shader */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SPIR-V instructions that are inspected; all others are copied. */
enum {
    SPV_HEADER = 5,
    SPV_NOP = 0,
    SPV_NAME = 5,
    SPV_CONSTANT = 43,
    SPV_FUNCTION = 54,
    SPV_FUNCTION_CALL = 57,
    SPV_COPY_OBJECT = 83,
    MAX_NAME = 24
};

static const struct {
    const uint32_t *words;
    size_t bytes;
} shaders[] = {
#define X(name, source, defines) { shader_##name, sizeof shader_##name },
#include "vulkan/shaders.def"
#undef X
};

uint64_t gpu_shaders_hash(void)
{
    uint64_t sum = 14695981039346656037u; /* FNV-1a over 32-bit words */

    for (uint32_t i = 0; i < SHADER_COUNT; i++)
        for (size_t k = 0; k < shaders[i].bytes / 4; k++)
            sum = (sum ^ shaders[i].words[k]) * 1099511628211u;
    return sum;
}

static const char *const operations[] = {
#define X(name) "op_" #name,
#include "vulkan/opcodes.def"
#undef X
};
#define LOAD(name, text) "load_" #text,
#define STORE(name, text) "store_" #text,
static const char *const loads[] = { GPU_ELEMENTS(LOAD) }, *const stores[] = { GPU_ELEMENTS(STORE) };

struct module {
    uint32_t *words;          /* copy of the module, modified in place */
    uint32_t count, body;     /* number of words; index of the first function */
    uint32_t *replacement_of; /* [bound] by id of a function: id of its replacement; 0: none */
    uint32_t *literal_at;     /* [bound] by id of a 32-bit constant: its index; 0: none */
    uint32_t *known; /* [bound] by id of a literal: id of the constant that replaces word(literal); 0: none yet */
};

static uint32_t opcode_at(const struct module *module, uint32_t at)
{
    return module->words[at] & 0xffffu;
}
static uint32_t length_at(const struct module *module, uint32_t at)
{
    return module->words[at] >> 16;
}

/* The id of the function of that name, ignoring case; 0: none. */
static uint32_t find_function(const struct module *module, const char *name)
{
    const size_t length = strlen(name);

    for (uint32_t at = SPV_HEADER; at < module->body; at += length_at(module, at))
        if (opcode_at(module, at) == SPV_NAME) {
            const char *text = (const char *)&module->words[at + 2];

            if (strncasecmp(text, name, length) == 0 && text[length] == '(')
                return module->words[at + 1];
        }
    return 0;
}

/* Replaces calls of function `from` by calls of `to`. false: the shader calls `from` but has no function `to`. */
static bool redirect(struct module *module, const char *from, const char *to)
{
    const uint32_t placeholder = find_function(module, from), replacement = find_function(module, to);

    module->replacement_of[placeholder] = replacement;
    return placeholder == 0 || replacement != 0;
}

static bool redirect_all(struct module *module, const uint32_t *constants)
{
    char from[MAX_NAME];
    bool ok = true;

    INLAY_CHECK(constants[ID_SLOTS] <= MOST_SLOTS);
    for (uint32_t i = 0; i < constants[ID_SLOTS]; i++) {
        const uint32_t op = constants[ID_SLOT + i] & 255u;

        (void)snprintf(from, sizeof from, "slot_%u", i);
        ok &= redirect(module, from, op < sizeof operations / sizeof operations[0] ? operations[op] : "");
    }
    for (uint32_t i = 0; i < MOST_INPUTS; i++) {
        (void)snprintf(from, sizeof from, "input_%u", i);
        ok &= redirect(module, from, loads[constants[ID_INPUT + i] & 15u]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(from, sizeof from, "load_%c", 'a' + (int)i);
        ok &= redirect(module, from, loads[constants[ID_LOAD + i] & 15u]);
    }
    return redirect(module, "store_out", stores[constants[ID_OUT] & 15u]) && ok;
}

/* Finds the first function and all 32-bit constants. */
static void read_module(struct module *module)
{
    uint32_t at = SPV_HEADER;

    for (; at < module->count && opcode_at(module, at) != SPV_FUNCTION; at += length_at(module, at))
        if (opcode_at(module, at) == SPV_CONSTANT && length_at(module, at) == 4)
            module->literal_at[module->words[at + 2]] = at;
    module->body = at;
}

/* Redirects calls, and replaces calls of word() with a literal by constants, which are written to `out`. Returns the
 * number of words written. */
static uint32_t change_calls(struct module *module, const gpu_pipeline_key *key, uint32_t *out)
{
    const uint32_t word = key->words != NULL ? find_function(module, "word") : 0;
    uint32_t written = 0;

    for (uint32_t at = module->body, length; at < module->count; at += length) {
        uint32_t *call = &module->words[at], literal;

        length = length_at(module, at);
        INLAY_CHECK(length > 0);
        if (opcode_at(module, at) != SPV_FUNCTION_CALL)
            continue;
        literal = call[3] == word && word != 0 ? module->literal_at[call[4]] : 0;
        if (module->replacement_of[call[3]] != 0)
            call[3] = module->replacement_of[call[3]];
        if (literal == 0)
            continue;
        if (module->known[call[4]] == 0) {
            const uint32_t index = module->words[literal + 3];

            module->known[call[4]] = module->words[3]++; /* words[3] is the bound: one more than the largest id */
            out[written++] = 4u << 16 | SPV_CONSTANT;
            out[written++] = call[1];
            out[written++] = module->known[call[4]];
            out[written++] = index < key->word_count ? key->words[index] : 0;
        }
        call[0] = 4u << 16 | SPV_COPY_OBJECT;
        call[3] = module->known[call[4]];
        call[4] = 1u << 16 | SPV_NOP;
    }
    return written;
}

inlay_status gpu_patch_shader(const gpu_pipeline_key *key, uint32_t **out, uint32_t *out_words, inlay_diag *diag)
{
    const uint32_t *from = shaders[key->shader].words, bound = from[3] + 3; /* three ids of gpu_matrix_convert() */
    struct module module = { .count = (uint32_t)(shaders[key->shader].bytes / 4) };
    const size_t most = module.count + GPU_MATRIX_WORDS + 4 * (size_t)bound; /* at most one constant per literal */
    uint32_t *tables = calloc(3 * (size_t)bound, sizeof *tables), *constants = malloc(most * sizeof *constants);
    inlay_status status = INLAY_OK;

    *out = module.words = malloc(most * sizeof *module.words);
    if (tables == NULL || constants == NULL || module.words == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a shader");
        goto done;
    }
    if (key->shader == SHADER_matrices || key->shader == SHADER_integers_matrices)
        module.count = gpu_matrix_convert(from, module.count, module.words);
    else
        memcpy(module.words, from, shaders[key->shader].bytes);
    module.replacement_of = tables;
    module.literal_at = tables + bound;
    module.known = tables + 2 * (size_t)bound;
    read_module(&module);
    if (redirect_all(&module, key->constants)) {
        const uint32_t added = change_calls(&module, key, constants);

        INLAY_CHECK(module.body <= module.count && module.count + added <= most);
        memmove(module.words + module.body + added, module.words + module.body,
                (module.count - module.body) * sizeof *module.words);
        memcpy(module.words + module.body, constants, added * sizeof *constants);
        *out_words = module.count + added;
    } else {
        status = inlay_fail(diag, INLAY_INTERNAL, "a shader lacks an operation of its program");
    }
done:
    if (status != INLAY_OK)
        free(module.words);
    free(tables);
    free(constants);
    return status;
}
