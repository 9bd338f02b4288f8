/* Plug-in files, in place of plugin/note_read.c and plugin/trust_mapped.c. Notes are not read: a file is loaded like a
 * file without a note. */
#include "plugin/note.h"
#include "plugin/trust.h"
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

/* The offset of the header in a file, and what it begins with. */
enum { HEADER_AT = 0x3c, MACHINE_X86_64 = 0x8664, HEADER_BYTES = 24, IS_LIBRARY = 0x2000 };

static uint32_t number_at(const unsigned char *bytes, int count)
{
    uint32_t number = 0;

    while (count-- > 0)
        number = number << 8 | bytes[count];
    return number;
}

inlay_status note_read(int fd, uint64_t file_bytes, note_facts *out, inlay_diag *diag)
{
    unsigned char start[64], header[HEADER_BYTES];
    uint32_t at;

    memset(out, 0, sizeof *out);
    out->name = out->providers = out->domains = out->version = "";
    if (file_bytes < sizeof start || pread(fd, start, sizeof start, 0) != sizeof start || memcmp(start, "MZ", 2) != 0 ||
        (at = number_at(start + HEADER_AT, 4)) > file_bytes - HEADER_BYTES ||
        pread(fd, header, HEADER_BYTES, at) != HEADER_BYTES || memcmp(header, "PE\0\0", 4) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "not a library of Windows");
    out->is_elf = true; /* of the system's format */
    if (number_at(header + 4, 2) != MACHINE_X86_64)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "built for machine 0x%x; this host loads 0x%x (x86-64)",
                          number_at(header + 4, 2), MACHINE_X86_64);
    if ((number_at(header + 22, 2) & IS_LIBRARY) == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a program, not a library");
    return INLAY_OK;
}

inlay_status trust_mapped(int fd, const void *address, const void *lowest, inlay_diag *diag)
{
    struct stat checked, loaded;
    Dl_info info;

    (void)lowest;
    if (fstat(fd, &checked) != 0 || dladdr(address, &info) == 0 || stat(info.dli_fname, &loaded) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "cannot verify that the loaded file is the one that was checked");
    if (checked.st_dev == loaded.st_dev && checked.st_ino == loaded.st_ino)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "the loaded file is not the one that was checked: another library of this name is in use");
}

void trust_forget(void)
{
}
