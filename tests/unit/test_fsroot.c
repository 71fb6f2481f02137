/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fsroot.h"
#include "harness.h"

static char folder[] = "/tmp/pghot-fsroot-XXXXXX";

static void put(const char *name, const char *content, size_t size)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CU_ASSERT(fd >= 0);
	CU_ASSERT_EQUAL(write(fd, content, size), (ssize_t)size);
	close(fd);
}

static void put_text(const char *name, const char *content)
{
	put(name, content, strlen(content));
}

static struct fsroot root_of_folder(void)
{
	struct fsroot root;

	CU_ASSERT_EQUAL(fsroot_open(&root, folder), 0);
	return root;
}

static void opens_folders_only(void)
{
	struct fsroot root;
	char path[PATH_MAX];

	put_text("file", "x");
	snprintf(path, sizeof(path), "%s/file", folder);
	CU_ASSERT_EQUAL(fsroot_open(&root, path), -ENOTDIR);
	CU_ASSERT_EQUAL(root.fd, -1);
	fsroot_close(&root);
	CU_ASSERT_EQUAL(fsroot_open(&root, "/nonexistent"), -ENOENT);
	CU_ASSERT_EQUAL(root.fd, -1);
	root = root_of_folder();
	CU_ASSERT(fcntl(root.fd, F_GETFD) & FD_CLOEXEC);
	fsroot_close(&root);
	CU_ASSERT_EQUAL(root.fd, -1);
	fsroot_close(&root);
}

static void reads_a_whole_file(void)
{
	struct fsroot root = root_of_folder();
	char buf[8];

	put_text("a1", "0-1\n");
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "%s%d", "a", 1), 3);
	CU_ASSERT_STRING_EQUAL(buf, "0-1");
	put_text("none", "");
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "none"), 0);
	CU_ASSERT_STRING_EQUAL(buf, "");
	put_text("newline", "\n");
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "newline"), 0);
	put_text("two", "a\n\n");
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "two"), 2);
	CU_ASSERT_STRING_EQUAL(buf, "a\n");
	put_text("fits", "1234567");
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "fits"), 7);
	CU_ASSERT_STRING_EQUAL(buf, "1234567");
	put_text("large", "12345678");
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "large"), -EFBIG);
	put("nul", "a\0b", 3);
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "nul"), 3);
	fsroot_close(&root);
}

static void says_why_it_cannot(void)
{
	struct fsroot root = root_of_folder();
	char buf[8], *text = NULL, name[PATH_MAX + 1];
	uint64_t v = 42;

	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "absent"), -ENOENT);
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "."), -EISDIR);
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "file/x"), -ENOTDIR);
	CU_ASSERT_EQUAL(fsroot_read_alloc(&root, &text, "absent"), -ENOENT);
	CU_ASSERT_PTR_NULL(text);
	CU_ASSERT_EQUAL(fsroot_read_u64(&root, &v, 10, "absent"), -ENOENT);
	CU_ASSERT_EQUAL(v, 42);
	CU_ASSERT_EQUAL(fsroot_write(&root, "1", "absent"), -ENOENT);
	CU_ASSERT_FALSE(fsroot_exists(&root, "absent"));
	memset(name, 'a', sizeof(name) - 1);
	name[PATH_MAX] = '\0';
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "%s", name), -ENAMETOOLONG);
	CU_ASSERT_FALSE(fsroot_exists(&root, "%s", name));
	fsroot_close(&root);
}

/* A path that begins with a slash must not leave the recorded machine for the running one. */
static void a_fifo_is_not_waited_for(void)
{
	struct fsroot root = root_of_folder();
	char path[PATH_MAX], buf[16];
	int writer;

	snprintf(path, sizeof(path), "%s/fifo", folder);
	CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "fifo"), 0);
	CU_ASSERT_EQUAL(fsroot_write(&root, "x", "fifo"), -ENXIO);
	writer = open(path, O_RDWR | O_CLOEXEC);
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "fifo"), -EAGAIN);
	close(writer);
	unlink(path);
	fsroot_close(&root);
}

static void a_slash_in_front_stays_inside(void)
{
	struct fsroot root = root_of_folder();
	char buf[64];

	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "/proc/self/comm"), -ENOENT);
	CU_ASSERT_FALSE(fsroot_exists(&root, "/proc"));
	put_text("a1", "x");
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "/a1"), 1);
	fsroot_close(&root);
	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	CU_ASSERT(fsroot_read(&root, buf, sizeof(buf), "proc/self/comm") > 0);
	fsroot_close(&root);
}

static void allocates_for_large_files(void)
{
	static const size_t sizes[] = { 0, 1, 16383, 16384, 16385, 100000, (16u << 20) - 1 };
	struct fsroot root = root_of_folder();
	char *content = malloc((16u << 20) + 1);

	for (size_t i = 0; i < (16u << 20) + 1; i++)
		content[i] = (char)('a' + i % 26);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *text = NULL;

		put("big", content, sizes[i]);
		CU_ASSERT_EQUAL(fsroot_read_alloc(&root, &text, "big"), (int)sizes[i]);
		CU_ASSERT(text && strlen(text) == sizes[i] && memcmp(text, content, sizes[i]) == 0);
		free(text);
	}
	char *text = NULL;

	put("big", content, (16u << 20) + 1);
	CU_ASSERT_EQUAL(fsroot_read_alloc(&root, &text, "big"), -EFBIG);
	CU_ASSERT_PTR_NULL(text);
	free(content);
	fsroot_close(&root);
}

static void reads_numbers_strictly(void)
{
	static const struct {
		const char *text;
		int base, r;
		uint64_t v;
	} cases[] = {
		{ "8000000\n", 16, 0, 0x8000000 },
		{ "0x10\n", 16, 0, 16 },
		{ "0XfF", 16, 0, 255 },
		{ "ffffffffffffffff", 16, 0, UINT64_MAX },
		{ "0000000ffffffffffffffff", 16, 0, UINT64_MAX },
		{ "10000000000000000", 16, -ERANGE, 0 },
		{ "0x", 16, -EINVAL, 0 },
		{ "g", 16, -EINVAL, 0 },
		{ "@", 16, -EINVAL, 0 },
		{ "1 2", 16, -EINVAL, 0 },
		{ "", 16, -EINVAL, 0 },
		{ "-1", 16, -EINVAL, 0 },
		{ "10000000000000000g", 16, -EINVAL, 0 },
		{ "010\n", 10, 0, 10 },
		{ "18446744073709551615\n", 10, 0, UINT64_MAX },
		{ "18446744073709551616\n", 10, -ERANGE, 0 },
		{ "0x10", 10, -EINVAL, 0 },
		{ "-1\n", 10, -EINVAL, 0 },
		{ "1\n\n", 10, -EINVAL, 0 },
		{ "", 10, -EINVAL, 0 },
		{ "1111111111111111111111111111111111111111111111111111111111111111111111", 10, -EINVAL, 0 },
	};
	struct fsroot root = root_of_folder();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t v = 42;

		put_text("n", cases[i].text);
		CU_ASSERT_EQUAL(fsroot_read_u64(&root, &v, cases[i].base, "n"), cases[i].r);
		CU_ASSERT_EQUAL(v, cases[i].r < 0 ? 42 : cases[i].v);
	}
	uint64_t v = 42;

	put("n", "1\0002", 3);
	CU_ASSERT_EQUAL(fsroot_read_u64(&root, &v, 10, "n"), -EINVAL);
	fsroot_close(&root);
}

static void writes_existing_files_only(void)
{
	struct fsroot root = root_of_folder();
	char buf[16];

	put_text("w", "1000\n");
	CU_ASSERT_EQUAL(fsroot_write(&root, "2", "%s", "w"), 0);
	CU_ASSERT_EQUAL(fsroot_read(&root, buf, sizeof(buf), "w"), 1);
	CU_ASSERT_STRING_EQUAL(buf, "2");
	CU_ASSERT_EQUAL(fsroot_write(&root, "2", "new"), -ENOENT);
	CU_ASSERT_FALSE(fsroot_exists(&root, "new"));
	fsroot_close(&root);

	CU_ASSERT_EQUAL(fsroot_open(&root, "/"), 0);
	CU_ASSERT_EQUAL(fsroot_write(&root, "x", "dev/full"), -ENOSPC);
	fsroot_close(&root);
}

static int count_entry(void *ctx, const char *name)
{
	int *n = ctx;

	CU_ASSERT(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
	(*n)++;
	return strcmp(name, "stop") == 0 ? 7 : 0;
}

static void walks_folders(void)
{
	struct fsroot root = root_of_folder();
	char path[PATH_MAX];
	int n = 0;

	snprintf(path, sizeof(path), "%s/dir", folder);
	CU_ASSERT_EQUAL(mkdir(path, 0755), 0);
	CU_ASSERT_EQUAL(fsroot_for_each(&root, count_entry, &n, "dir"), 0);
	CU_ASSERT_EQUAL(n, 0);
	put_text("dir/a", "");
	put_text("dir/.b", "");
	CU_ASSERT_EQUAL(fsroot_for_each(&root, count_entry, &n, "d%s", "ir"), 0);
	CU_ASSERT_EQUAL(n, 2);
	put_text("dir/stop", "");
	CU_ASSERT_EQUAL(fsroot_for_each(&root, count_entry, &n, "dir"), 7);
	CU_ASSERT_EQUAL(fsroot_for_each(&root, count_entry, &n, "dir/a"), -ENOTDIR);
	CU_ASSERT_EQUAL(fsroot_for_each(&root, count_entry, &n, "absent"), -ENOENT);
	fsroot_close(&root);
}

static void reads_links(void)
{
	struct fsroot root = root_of_folder();
	char path[PATH_MAX], buf[8];

	snprintf(path, sizeof(path), "%s/link", folder);
	CU_ASSERT_EQUAL(symlink("target", path), 0);
	CU_ASSERT_EQUAL(fsroot_readlink(&root, buf, sizeof(buf), "link"), 6);
	CU_ASSERT_STRING_EQUAL(buf, "target");
	CU_ASSERT_EQUAL(fsroot_readlink(&root, buf, 7, "link"), 6);
	CU_ASSERT_EQUAL(fsroot_readlink(&root, buf, 6, "link"), -ENAMETOOLONG);
	CU_ASSERT_EQUAL(fsroot_readlink(&root, buf, sizeof(buf), "dir"), -EINVAL);
	CU_ASSERT_EQUAL(fsroot_readlink(&root, buf, sizeof(buf), "absent"), -ENOENT);
	CU_ASSERT_FALSE(fsroot_exists(&root, "link")); /* it dangles */
	CU_ASSERT_TRUE(fsroot_exists(&root, "d%cr", 'i'));
	fsroot_close(&root);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void make_folder(void)
{
	CU_ASSERT_PTR_NOT_NULL(mkdtemp(folder));
}

static void remove_folder(void)
{
	CU_ASSERT_EQUAL(nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

TEST_MAIN(fsroot, TEST(make_folder), TEST(opens_folders_only), TEST(reads_a_whole_file), TEST(a_fifo_is_not_waited_for),
	  TEST(says_why_it_cannot), TEST(a_slash_in_front_stays_inside), TEST(allocates_for_large_files),
	  TEST(reads_numbers_strictly), TEST(writes_existing_files_only), TEST(walks_folders), TEST(reads_links),
	  TEST(remove_folder))
