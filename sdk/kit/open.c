/* The handshake, and the build id that identifies the build of a plugin. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "internal.h"
#include "inlay/extensions.h"
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ build id */

struct id_search {
    uintptr_t address; /* an address inside the module */
    const uint8_t *id; /* out: the GNU build id, or NULL */
    uint32_t id_bytes;
    uint64_t code_hash; /* out: hash of the executable segments */
};

static bool holds_address(const struct dl_phdr_info *info, uintptr_t address)
{
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type == PT_LOAD && address - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
            return true;
    }
    return false;
}

static void find_note(const uint8_t *notes, size_t bytes, struct id_search *search)
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)notes;
        size_t name = ((size_t)note->n_namesz + 3) / 4 * 4, desc = ((size_t)note->n_descsz + 3) / 4 * 4;

        if (name > bytes - sizeof *note || desc > bytes - sizeof *note - name)
            return;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0) {
            search->id = (const uint8_t *)(note + 1) + name;
            search->id_bytes = note->n_descsz;
            return;
        }
        notes += sizeof *note + name + desc;
        bytes -= sizeof *note + name + desc;
    }
}

static void hash_code(const uint8_t *code, size_t bytes, struct id_search *search)
{
    for (size_t i = 0; i < bytes; i++)
        search->code_hash = (search->code_hash ^ code[i]) * UINT64_C(1099511628211);
}

static int inspect_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct id_search *search = arg;

    (void)size;
    if (!holds_address(info, search->address))
        return 0;
    for (uint32_t i = 0; i < info->dlpi_phnum && search->id == NULL; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            find_note((const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), info->dlpi_phdr[i].p_memsz,
                      search);
    for (uint32_t i = 0; i < info->dlpi_phnum && search->id == NULL; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0)
            hash_code((const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), info->dlpi_phdr[i].p_filesz,
                      search);
    return 1;
}

void kit_build_id(const void *address, const char *version, char *text, size_t bytes)
{
    struct id_search search = { .address = (uintptr_t)address, .code_hash = UINT64_C(14695981039346656037) };

    (void)dl_iterate_phdr(inspect_module, &search);
    if (search.id == NULL) {
        (void)snprintf(text, bytes, "%s-%016llx", version, (unsigned long long)search.code_hash);
        return;
    }
    text[0] = '\0';
    for (uint32_t i = 0; i < search.id_bytes && 2 * (size_t)i + 2 < bytes; i++)
        (void)snprintf(text + 2 * (size_t)i, 3, "%02x", search.id[i]);
}

/* ------------------------------------------------------------------ providers */

static void destroy(void *state_)
{
    kit_state *state = state_;

    if (state == NULL)
        return;
    if (state->self->close != NULL && state->user != NULL)
        state->self->close(state->user);
    kit_rows_deinit(state);
    free(state);
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    kit_state *state = calloc(1, sizeof *state);
    inlay_status status;

    *out_state = NULL;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "opening a provider");
    state->self = ctx;
    state->host = host;
    INLAY_TRY(kit_rows_init(state, diag));
    if (state->self->open != NULL)
        INLAY_TRY(state->self->open(host, args, &state->user, diag));
    *out_state = state;
    state = NULL;
done:
    if (status != INLAY_OK && state != NULL)
        state->user = NULL; /* if open failed, close must not be called */
    destroy(state);
    return status;
}

/* Branches may run concurrently: the only data that kernels keep between calls is the state of their node, and
 * concurrent runs use that anyway. */
static uint32_t may_branch(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
    return 1;
}

static const void *extension(void *state, const char *name)
{
    static const inlay_ext_branches branches = { .struct_size = sizeof branches, .may = may_branch };

    (void)state;
    return strcmp(name, INLAY_EXT_BRANCHES) == 0 ? &branches : NULL;
}

inlay_provider kit_describe_provider(const kit_provider *self)
{
    return (inlay_provider){
        .struct_size = sizeof(inlay_provider),
        .name = self->name,
        .description = self->description,
        .device_kind = INLAY_DEVICE_CPU,
        .flags = self->flags,
        .options = self->options,
        .option_count = self->option_count,
        .option_stride = sizeof(inlay_option),
        .poll_ms = self->poll_ms,
        .ctx = (void *)(uintptr_t)self,
        .create = create,
        .destroy = destroy,
        .assess = kit_assess,
        .cost = kit_cost,
        .compile = kit_compile,
        .release_compiled = kit_release_compiled,
        .specialize = kit_specialize,
        .release_instance = kit_release_instance,
        .execute = kit_execute,
        .extension = extension,
    };
}

inlay_status kit_open(const kit_plugin *self, kit_exports *exports, const inlay_host *host,
                      const inlay_plugin **out_plugin, inlay_diag *diag)
{
    INLAY_CHECK(self->name != NULL && self->version != NULL);
    *out_plugin = NULL;
    if (host == NULL || !INLAY_HAS(host, extension) || host->abi_major < INLAY_ABI_MAJOR ||
        host->abi_major_oldest > INLAY_ABI_MAJOR)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "plugin '%s' needs a host of ABI %u.%u; this one is %u.%u",
                          self->name, INLAY_ABI_MAJOR, INLAY_ABI_MINOR, host != NULL ? host->abi_major : 0,
                          host != NULL ? host->abi_minor : 0);
    kit_build_id(self, self->version, exports->build_id, sizeof exports->build_id);
    if (self->provider != NULL)
        exports->provider = kit_describe_provider(self->provider);
    exports->plugin = (inlay_plugin){
        .struct_size = sizeof exports->plugin,
        .abi_major = INLAY_ABI_MAJOR,
        .abi_minor = INLAY_ABI_MINOR,
        .name = self->name,
        .version = self->version,
        .build_id = exports->build_id,
        .flags = self->flags,
        .providers = self->provider != NULL ? &exports->provider : NULL,
        .provider_count = self->provider != NULL,
        .provider_stride = sizeof(inlay_provider),
        .operators = self->operators,
        .operator_count = self->operator_count,
        .operator_stride = sizeof(inlay_operator),
    };
    *out_plugin = &exports->plugin;
    return INLAY_OK;
}
