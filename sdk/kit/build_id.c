/* The build id that identifies the build of a plugin. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "internal.h"
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

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
    static const char digits[] = "0123456789abcdef";
    struct id_search search = { .address = (uintptr_t)address, .code_hash = UINT64_C(14695981039346656037) };
    size_t length = 0;

    (void)dl_iterate_phdr(inspect_module, &search);
    if (search.id == NULL) {
        (void)snprintf(text, bytes, "%s-%016llx", version, (unsigned long long)search.code_hash);
        return;
    }
    for (uint32_t i = 0; i < search.id_bytes && length + 2 < bytes; i++) {
        text[length++] = digits[search.id[i] >> 4];
        text[length++] = digits[search.id[i] & 15];
    }
    text[length] = '\0';
}
