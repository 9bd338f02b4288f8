#include "check/imports.h"
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool write_slot(uintptr_t slot, void (*function)(void))
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = slot & ~(page - 1);

    /* With RELRO, slots are read-only after relocation. They stay writable here. */
    if (mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
        return false;
    memcpy((void *)slot, &function, sizeof function);
    return true;
}

struct dynamic {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
};

static bool replace_in(const struct dynamic *dynamic, const ElfW(Rela) * list, size_t bytes, const import_hook *hooks,
                       uint32_t count)
{
    bool ok = true;

    for (size_t i = 0; list != NULL && i < bytes / sizeof *list; i++) {
        const ElfW(Sym) *symbol = &dynamic->symbols[ELF64_R_SYM(list[i].r_info)];

        /* A relocation of a function symbol stores the address of the function, for a call or for a pointer. */
        if (ELF64_R_SYM(list[i].r_info) == 0 || list[i].r_addend != 0 || symbol->st_shndx != SHN_UNDEF)
            continue;
        for (uint32_t h = 0; h < count; h++)
            if (strcmp(dynamic->names + symbol->st_name, hooks[h].name) == 0)
                ok &= write_slot(dynamic->base + list[i].r_offset, hooks[h].function);
    }
    return ok;
}

bool imports_replace(void *handle, const import_hook *hooks, uint32_t count, uintptr_t *out_base)
{
    const struct link_map *map = handle; /* glibc's handles are struct link_map (see dlinfo, RTLD_DI_LINKMAP) */
    const ElfW(Rela) *jumps = NULL, *others = NULL;
    size_t jump_bytes = 0, other_bytes = 0;
    struct dynamic dynamic = { .symbols = NULL };

    if (map == NULL)
        return false; /* the plugin is isolated */
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            dynamic.symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_STRTAB)
            dynamic.names = (const char *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_JMPREL)
            jumps = (const ElfW(Rela) *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_PLTRELSZ)
            jump_bytes = (size_t)entry->d_un.d_val;
        else if (entry->d_tag == DT_RELA)
            others = (const ElfW(Rela) *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_RELASZ)
            other_bytes = (size_t)entry->d_un.d_val;
    }
    if (dynamic.symbols == NULL || dynamic.names == NULL)
        return false;
    dynamic.base = map->l_addr;
    if (out_base != NULL)
        *out_base = dynamic.base;
    return replace_in(&dynamic, jumps, jump_bytes, hooks, count) &&
           replace_in(&dynamic, others, other_bytes, hooks, count);
}
