/* Texts of NVTX messages. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "nvtx_text.h"

static char out[RANGES_TEXT];

static const char *narrow(const char *text)
{
	nvtx_text_narrow(out, text);
	return out;
}

static const char *wide(const wchar_t *text)
{
	nvtx_text_wide(out, text);
	return out;
}

static void narrow_texts_are_cut_at_a_character_and_cleaned(void **state)
{
	char text[2 * RANGES_TEXT] = "";

	(void)state;
	assert_string_equal(narrow(NULL), "");
	assert_string_equal(narrow("layer 3"), "layer 3");
	assert_string_equal(narrow("a\nb\x1b[1m\x7f"), "a?b?[1m?");
	while (strlen(text) < RANGES_TEXT)
		strcat(text, "é");
	assert_int_equal(strlen(narrow(text)), RANGES_TEXT - 2);
	memset(text, 0xbf, sizeof(text) - 1);
	assert_string_equal(narrow(text), "");
}

static void wide_texts_become_utf_8(void **state)
{
	wchar_t text[RANGES_TEXT];

	(void)state;
	assert_string_equal(wide(NULL), "");
	assert_string_equal(wide(L"a\u00e9\u20ac\U0001f600\n"),
			    "aé€😀?");
	assert_string_equal(wide((const wchar_t[]){ 0xd800, 0x110000, 0 }),
			    "??");
	for (int i = 0; i < RANGES_TEXT; i++)
		text[i] = 0x20ac;
	text[RANGES_TEXT - 1] = 0;
	assert_int_equal(strlen(wide(text)), 126);
}

static const char *event(uint16_t size, int type, const void *message)
{
	struct nvtx_attributes event = { 3, size, .message_type = type,
					 .message.registered = message };

	nvtx_text_event(out, &event);
	return out;
}

static void an_event_has_one_of_three_kinds_of_text_or_none(void **state)
{
	const uint16_t size = sizeof(struct nvtx_attributes);
	const void *handle = nvtx_text_register(NULL, "known");

	(void)state;
	assert_int_equal(size, 48);
	assert_string_equal(event(size, 1, "narrow"), "narrow");
	assert_string_equal(event(size, 2, L"wide"), "wide");
	assert_string_equal(event(size, 3, handle), "known");
	assert_string_equal(event(size, 3, &out), "");
	assert_string_equal(event(size, 3, NULL), "");
	assert_string_equal(event(size, 0, "none"), "");
	assert_string_equal(event(size, 4, "none"), "");
	assert_string_equal(event(size - 8, 1, "short"), "");
	nvtx_text_event(out, NULL);
	assert_string_equal(out, "");
}

static void registered_strings_keep_the_handle_of_the_tool(void **state)
{
	static char handles[2 * NVTX_TEXT_REGISTERED];
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(handles); i++) {
		snprintf(text, sizeof(text), "text %zu", i);
		assert_ptr_equal(nvtx_text_register(&handles[i], text),
				 &handles[i]);
	}
	assert_string_equal(event(48, 3, &handles[17]), "text 17");
	assert_string_equal(event(48, 3, &handles[sizeof(handles) - 1]), "");
	assert_null(nvtx_text_register(NULL, "no room"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			narrow_texts_are_cut_at_a_character_and_cleaned),
		cmocka_unit_test(wide_texts_become_utf_8),
		cmocka_unit_test(
			an_event_has_one_of_three_kinds_of_text_or_none),
		cmocka_unit_test(
			registered_strings_keep_the_handle_of_the_tool),
	};

	if (nvtx_text_begin())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
