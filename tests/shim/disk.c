/*
 * A library to preload into the broker. It writes down what the process does to the files beneath one folder, so that a test can
 * work out what a loss of power would have left of them; and it makes chosen flushes fail, lie, dawdle or be the last thing that
 * the process does.
 *
 * Settings, all from the environment:
 *   SHIM_ROOT     the folder (absolute, no symbolic links); nothing outside of it is touched
 *   SHIM_JOURNAL  where the journal goes; one file for each process
 *   SHIM_SUFFIX   the flushes meant are those of files and folders whose path ends so
 *   SHIM_FAULT    what becomes of the n-th of them: `eio` (fails, nothing is flushed) or `kill` (done, then SIGKILL)
 *   SHIM_NTH      n, from 1; absent: 1
 *   SHIM_LIE      `1`: all of them return 0 and flush nothing
 *   SHIM_DELAY_MS all of them take this much longer
 *   SHIM_ARM      fault, lie and delay begin, and counting too, once this file exists; absent: at once
 *
 * The order that counts: a change is written down before it is made, since until a flush it may be lost anyway; the end of a flush
 * after it succeeded and before the caller hears of it. A flush covers what was written down before its beginning.
 *
 * System calls are made directly: a lookup of the real functions would come back here. What the journal cannot tell (a shared
 * writable map, a hole punched) ends the process with a message.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, TRUNCATE, UNLINK, RENAME, MKDIR, FLUSH_BEGIN, FLUSH_END, FLUSH_FAILED };

/* Each record: this head, then the first and the second text. */
struct head {
    uint32_t magic, kind;
    uint64_t file, number;
    uint32_t first, second;
};

#define MAGIC 0x314a4241u /* "ABJ1" */
#define MAX_FDS 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root, *suffix, *fault, *arm;
static size_t root_length;
static int journal = -1, lies;
static long nth = 1, delay_ms, seen;
static uint64_t flushes;
/* The inode behind each descriptor of ours, and whether its path has the suffix. */
static uint64_t files[MAX_FDS];
static char meant[MAX_FDS];

static void die(const char *what) {
    dprintf(2, "shim: %s: %s\n", what, strerror(errno));
    _exit(99);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHIM_JOURNAL"), *number;
    root = getenv("SHIM_ROOT");
    if (root == NULL || path == NULL) die("SHIM_ROOT or SHIM_JOURNAL is not set");
    root_length = strlen(root);
    suffix = getenv("SHIM_SUFFIX");
    fault = getenv("SHIM_FAULT");
    arm = getenv("SHIM_ARM");
    lies = getenv("SHIM_LIE") != NULL;
    if ((number = getenv("SHIM_NTH")) != NULL) nth = atol(number);
    if ((number = getenv("SHIM_DELAY_MS")) != NULL) delay_ms = atol(number);
    journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (journal < 0) die("cannot open the journal");
}

/* Writes one record. The lock is held. */
static void note(enum kind kind, uint64_t file, uint64_t number, const void *first, size_t first_length, const char *second) {
    size_t second_length = second == NULL ? 0 : strlen(second);
    struct head head = {MAGIC, kind, file, number, (uint32_t)first_length, (uint32_t)second_length};
    struct iovec parts[3] = {
        {&head, sizeof head}, {(void *)first, first_length}, {(void *)second, second_length}};
    ssize_t whole = (ssize_t)(sizeof head + first_length + second_length);
    if (syscall(SYS_writev, journal, parts, 3) != whole) die("cannot write the journal");
}

/* The path beneath the root that `path` means, or NULL if it is elsewhere. `""` is the root itself. */
static const char *beneath(int folder, const char *path, char *room) {
    if (root == NULL) return NULL;
    if (path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        long length = syscall(SYS_readlinkat, AT_FDCWD, link, room, PATH_MAX - 1);
        if (length < 0) return NULL;
        snprintf(room + length, (size_t)(PATH_MAX - length), "/%s", path);
    } else {
        snprintf(room, PATH_MAX, "%s", path);
    }
    if (strncmp(room, root, root_length) != 0) return NULL;
    if (room[root_length] == '\0') return room + root_length;
    return room[root_length] == '/' ? room + root_length + 1 : NULL;
}

static int ends_with_suffix(const char *path) {
    size_t length = strlen(path), tail = suffix == NULL ? 0 : strlen(suffix);
    return suffix != NULL && length >= tail && strcmp(path + length - tail, suffix) == 0;
}

static uint64_t file_of(int fd) { return fd >= 0 && fd < MAX_FDS ? files[fd] : 0; }

static int open_any(int folder, const char *path, int flags, mode_t mode) {
    char room[PATH_MAX];
    const char *name = beneath(folder, path, room);
    if (name == NULL) return (int)syscall(SYS_openat, folder, path, flags, mode);
    pthread_mutex_lock(&lock);
    int is_new = (flags & O_CREAT) && syscall(SYS_faccessat, folder, path, F_OK) != 0;
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    int error = errno;
    if (fd >= 0) {
        struct stat stat;
        if (fd >= MAX_FDS || fstat(fd, &stat) != 0) die("cannot follow a descriptor");
        files[fd] = stat.st_ino;
        meant[fd] = (char)ends_with_suffix(name);
        if (is_new) note(CREATE, stat.st_ino, 0, name, strlen(name), NULL);
        if (!is_new && (flags & O_TRUNC)) note(TRUNCATE, stat.st_ino, 0, NULL, 0, NULL);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(rest, int) : 0;
}

#define OPEN(NAME)                                            \
    int NAME(const char *path, int flags, ...) {              \
        va_list rest;                                         \
        va_start(rest, flags);                                \
        mode_t mode = mode_of(flags, rest);                   \
        va_end(rest);                                         \
        return open_any(AT_FDCWD, path, flags, mode);         \
    }
#define OPENAT(NAME)                                          \
    int NAME(int folder, const char *path, int flags, ...) {  \
        va_list rest;                                         \
        va_start(rest, flags);                                \
        mode_t mode = mode_of(flags, rest);                   \
        va_end(rest);                                         \
        return open_any(folder, path, flags, mode);           \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
    if (fd >= 0 && fd < MAX_FDS) files[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

/* Where a write without an offset goes. */
static off_t position(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return lseek(fd, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);
}

static ssize_t whole(ssize_t done, size_t length) {
    if (done >= 0 && (size_t)done != length) die("a short write is not modelled");
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    uint64_t file = file_of(fd);
    if (file == 0) return syscall(SYS_pwrite64, fd, data, length, at);
    pthread_mutex_lock(&lock);
    note(WRITE, file, (uint64_t)at, data, length, NULL);
    ssize_t done = whole(syscall(SYS_pwrite64, fd, data, length, at), length);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) { return pwrite(fd, data, length, at); }

ssize_t write(int fd, const void *data, size_t length) {
    uint64_t file = file_of(fd);
    if (file == 0) return syscall(SYS_write, fd, data, length);
    pthread_mutex_lock(&lock);
    note(WRITE, file, (uint64_t)position(fd), data, length, NULL);
    ssize_t done = whole(syscall(SYS_write, fd, data, length), length);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    uint64_t file = file_of(fd);
    if (file == 0) return syscall(SYS_writev, fd, parts, count);
    pthread_mutex_lock(&lock);
    off_t at = position(fd);
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        note(WRITE, file, (uint64_t)at + length, parts[i].iov_base, parts[i].iov_len, NULL);
        length += parts[i].iov_len;
    }
    ssize_t done = whole(syscall(SYS_writev, fd, parts, count), length);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t length) {
    uint64_t file = file_of(fd);
    if (file == 0) return (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&lock);
    note(TRUNCATE, file, (uint64_t)length, NULL, 0, NULL);
    int done = (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

static void not_modelled(int fd, const char *what) {
    errno = ENOTSUP;
    if (file_of(fd) != 0) die(what);
}

int fallocate(int fd, int mode, off_t at, off_t length) {
    not_modelled(fd, "fallocate is not modelled");
    return (int)syscall(SYS_fallocate, fd, mode, at, length);
}

int fallocate64(int fd, int mode, off_t at, off_t length) { return fallocate(fd, mode, at, length); }

/* SQLite maps its shared-memory index, which it makes anew after a crash. Nothing else may be written so. */
static void *map(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    if (file_of(fd) != 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED)) {
        char link[64], path[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        long end = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
        if (end < 4 || strncmp(path + end - 4, "-shm", 4) != 0) not_modelled(fd, "a shared writable map is not modelled");
    }
    return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
}

void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    return map(at, length, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    return map(at, length, protection, flags, fd, offset);
}

int unlinkat(int folder, const char *path, int flags) {
    char room[PATH_MAX];
    const char *name = beneath(folder, path, room);
    pthread_mutex_lock(&lock);
    int there = name != NULL && syscall(SYS_faccessat, folder, path, F_OK) == 0;
    if (there) note(UNLINK, 0, 0, name, strlen(name), NULL);
    int done = (int)syscall(SYS_unlinkat, folder, path, flags);
    pthread_mutex_unlock(&lock);
    return done;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

static int rename_any(int from_folder, const char *from, int to_folder, const char *to) {
    char from_room[PATH_MAX], to_room[PATH_MAX];
    const char *old = beneath(from_folder, from, from_room), *new = beneath(to_folder, to, to_room);
    if ((old == NULL) != (new == NULL)) die("a rename into or out of the folder is not modelled");
    pthread_mutex_lock(&lock);
    if (old != NULL) note(RENAME, 0, 0, old, strlen(old), new);
    int done = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
    if (old != NULL && done != 0) die("a failed rename is not modelled");
    pthread_mutex_unlock(&lock);
    return done;
}

int rename(const char *from, const char *to) { return rename_any(AT_FDCWD, from, AT_FDCWD, to); }

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return rename_any(from_folder, from, to_folder, to);
}

int mkdir(const char *path, mode_t mode) {
    char room[PATH_MAX];
    const char *name = beneath(AT_FDCWD, path, room);
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode), error = errno;
    struct stat stat;
    if (name != NULL && done == 0) {
        if (fstatat(AT_FDCWD, path, &stat, 0) != 0) die("cannot follow a new folder");
        note(MKDIR, stat.st_ino, 0, name, strlen(name), NULL);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

static int armed(void) { return arm == NULL || syscall(SYS_faccessat, AT_FDCWD, arm, F_OK) == 0; }

static int flush(int fd, long call) {
    uint64_t file = file_of(fd);
    if (file == 0) return (int)syscall(call, fd);
    int is_meant = meant[fd] && armed();
    if (is_meant && delay_ms > 0) {
        struct timespec time = {delay_ms / 1000, delay_ms % 1000 * 1000000};
        nanosleep(&time, NULL);
    }
    if (is_meant && lies) return 0;
    pthread_mutex_lock(&lock);
    int is_hit = is_meant && fault != NULL && ++seen == nth;
    uint64_t number = ++flushes;
    note(FLUSH_BEGIN, file, number, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
    int fails = is_hit && strcmp(fault, "eio") == 0;
    int done = fails ? -1 : (int)syscall(call, fd);
    int error = fails ? EIO : errno;
    pthread_mutex_lock(&lock);
    note(done == 0 ? FLUSH_END : FLUSH_FAILED, file, number, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
    if (is_hit && !fails) {
        kill(getpid(), SIGKILL);
        pause();
    }
    errno = error;
    return done;
}

int fsync(int fd) { return flush(fd, SYS_fsync); }
int fdatasync(int fd) { return flush(fd, SYS_fdatasync); }
