# Prints the version script of libckptagent.so: the third argument of every
# HOOK in hooks.def, and every function that shim_abi.h declares. The node is
# anonymous: a named one would keep versioned references (such as
# cudaMalloc@libcudart.so.12) from binding to the preloaded symbols.
BEGIN { print "{\n\tglobal:" }
/^HOOK\(/ {
	split($0, field, /[(,] */)
	print "\t\t" field[4] ";"
	next
}
{
	line = $0
	while (match(line, /ckptagent_[a-z_]+\(/)) {
		print "\t\t" substr(line, RSTART, RLENGTH - 1) ";"
		line = substr(line, RSTART + RLENGTH)
	}
}
END { print "\tlocal:\n\t\t*;\n};" }
