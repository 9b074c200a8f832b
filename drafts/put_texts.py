"""put_texts.py PAGE [EXPERIMENT]: puts the ready texts of TODO-RECORD comments (of one experiment, or all) in their place.

In a comment '<!-- TODO-RECORD: ... Ready text ...:' everything from the next line on is the text; {{E | f}} becomes an inline value and
{{generate: X}} a block, to be filled by `ladder pages`. Remarks in parentheses, '(If ...)' '(Then ...)' '(Where ...)' '(Level ...)', are for
who does it: it prints them. Afterwards: read the text again with the numbers in it.
"""
import re, sys
path, want = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
text = open(path).read()
def put(match):
    head, body = match[1], match[2]
    if want not in head or "eady text" not in head:
        return match[0]
    body = re.sub(r"\{\{generate: ([^}]*)\}\}", r"<!-- generate: \1 -->\n<!-- end -->", body)
    body = re.sub(r"\{\{(.+?)\}\}", r"<!--= \1 --><!--/-->", body)
    for remark in re.findall(r"\((?:If|Then|Where|Level) .*?\)(?:\n|$)", body, re.S):
        print(f"{path}: remark to heed and delete: {' '.join(remark.split())}")
    return body.rstrip("\n") + "\n"
new = re.sub(r"<!-- (TODO-RECORD:[^\n]*)\n(.*?)\n-->\n", put, text, flags=re.S)
print(f"{path}: {text.count('TODO-RECORD') - new.count('TODO-RECORD')} put, {new.count('TODO-RECORD')} left")
open(path, "w").write(new)
