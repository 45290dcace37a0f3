// Print the rows that icebird reads, one a line: node conformance/icebird.mjs TABLE REF
//
// An example of a reader that the runner asks: npm install icebird, then
// python conformance/run.py --engine "icebird@0.3.1=node conformance/icebird.mjs {table} {ref}"

import { readFileSync } from 'node:fs'
import { icebergRead } from 'icebird'

// icebird reads by fetch, which in Node knows no files.
globalThis.fetch = async (url, { method, headers } = {}) => {
  const data = readFileSync(url.replace(/^file:(\/\/)?/, ''))
  const range = /bytes=(\d+)-(\d*)/.exec(new Headers(headers).get('range') ?? '')
  if (method === 'HEAD') return new Response(null, { headers: { 'content-length': String(data.length) } })
  if (!range) return new Response(data)
  return new Response(data.subarray(Number(range[1]), range[2] ? Number(range[2]) + 1 : undefined), { status: 206 })
}

function json(_, value) {
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value
}

const [file, ref] = process.argv.slice(2)
try {
  const metadata = JSON.parse(readFileSync(file, 'utf8'))
  const wanted = metadata.refs?.[ref]
  if (wanted) metadata['current-snapshot-id'] = wanted['snapshot-id']
  for (const row of await icebergRead({ tableUrl: metadata.location, metadata })) console.log(JSON.stringify(row, json))
} catch (error) {
  console.error(error.message)
  process.exit(error instanceof TypeError ? 1 : 3) // what icebird did not expect is a bug of its own
}
