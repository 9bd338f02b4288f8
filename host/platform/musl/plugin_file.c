/* Plug-in files, in place of plugin/note_read.c, without libelf. Notes are not read: a file is loaded like a file
 * without a note, and the dynamic linker refuses a file for another machine. */
#include "plugin/note.h"
#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

inlay_status note_read(int fd, uint64_t file_bytes, note_facts *out, inlay_diag *diag)
{
    ElfW(Ehdr) header;

    memset(out, 0, sizeof *out);
    out->name = out->providers = out->domains = out->version = "";
    if (file_bytes < sizeof header || pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "not an ELF file");
    out->is_elf = true;
    if (header.e_type != ET_DYN)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "an ELF file, but not a shared object: link it with -shared");
    return INLAY_OK;
}
